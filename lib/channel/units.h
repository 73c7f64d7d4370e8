// Registered buffers of one size, for receiving and sending. They come in slabs of a mebibyte, each one memory region,
// and are never given back before the end: a steady state registers nothing.
//
// A unit knows whose it is (slot and generation of a connection), because a program may hold a message longer than its
// connection lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "lib/verbs/objects.h"

namespace verbena::channel {

struct Unit {
	Unit* next = nullptr;
	std::byte* data = nullptr;
	std::uint32_t lkey = 0;
	std::uint32_t length = 0;      // bytes that arrived, or that are to be sent
	std::uint32_t slot = 0;        // of the connection
	std::uint32_t generation = 0;
	std::uint32_t number = 0;      // of the work request that sends it
	std::uint16_t references = 0;  // messages that lie in it, and 1 while it is being read
	bool unpromised = false;       // it came out of what was promised to others: nobody is to count it again
};

class UnitPool {
public:
	UnitPool(ibv_pd* domain, std::uint32_t unit_bytes, std::uint32_t units_max);

	// nullptr: all are in use and there may be no more.
	Unit* take();
	void give_back(Unit* unit) {
		unit->next = free_;
		free_ = unit;
		--in_use_;
	}
	std::uint32_t unit_bytes() const { return unit_bytes_; }
	std::uint32_t in_use() const { return in_use_; }
	std::uint32_t count() const { return count_; }
	std::uint32_t max() const { return units_max_; }
	std::size_t regions() const { return slabs_.size(); }

private:
	bool grow();

	struct Unmap {
		std::size_t bytes = 0;
		void operator()(std::byte* at) const;
	};
	struct Slab {
		std::unique_ptr<std::byte, Unmap> memory;
		lib::MemoryRegion region;
		std::vector<Unit> units;
	};
	ibv_pd* domain_;
	std::uint32_t unit_bytes_;
	std::uint32_t units_max_;
	std::uint32_t count_ = 0;
	std::uint32_t in_use_ = 0;
	Unit* free_ = nullptr;
	std::vector<Slab> slabs_;
};

}  // namespace verbena::channel

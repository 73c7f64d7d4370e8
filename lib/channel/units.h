// Registered buffers of one size, for receiving and sending frames.
//
// Units come in slabs of a mebibyte, each one memory region. Slabs are freed with the pool only, so
// a steady state registers nothing.
//
// Threads: the loop's thread.
// Owns: the memory and its registrations. Units that were taken must be given back or forgotten
//   before the pool is destroyed.
// Errors: take() returns null at `units_max`, or when no memory can be registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "lib/verbs/objects.h"

namespace verbena::channel {

// One buffer, and what is known of the frame in it. Slot and generation name the connection that it
// belongs to (ChannelId), because a program may hold a message longer than its connection exists.
struct Unit {
	Unit* next = nullptr;
	std::byte* data = nullptr;
	std::uint32_t lkey = 0;
	std::uint32_t length = 0;  // bytes that have arrived, or that are to be sent
	std::uint32_t slot = 0;  // the connection's
	std::uint32_t generation = 0;
	// Sending: the number of the work request. Receiving: the bytes that were read (Inbox).
	std::uint32_t number = 0;
	std::uint16_t references = 0;  // messages that lie in it, and 1 while it is being read
	// Its frame had no credit, so it was taken from what is granted to others: posting it again
	// does not add a free unit.
	bool ungranted = false;
};

class UnitPool {
public:
	UnitPool(ibv_pd* domain, std::uint32_t unit_bytes, std::uint32_t units_max);

	// Null: all units are in use, and the pool cannot grow.
	Unit* take();
	void give_back(Unit* unit) {
		unit->next = free_;
		free_ = unit;
		--in_use_;
	}
	std::uint32_t unit_bytes() const { return unit_bytes_; }
	std::uint32_t in_use() const { return in_use_; }
	// Units that exist, free or not.
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

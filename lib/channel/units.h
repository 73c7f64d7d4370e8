// SPDX-License-Identifier: Apache-2.0
// Registered buffers of one size, for receiving and sending frames.
//
// The pool registers memory in slabs of at most 1 MiB, each of which is one memory region and is
// cut into units. Slabs are freed only with the pool, so in a steady state the pool makes no
// registrations.
//
// Threads: the loop's thread.
// Owns: the memory and its registrations. No unit may be used after the pool is destroyed.
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

// One buffer, and facts about the frame in it. `slot` and `generation` (a ChannelId) identify the
// frame's connection; a pointer would dangle, as a program may hold a message after its connection
// is destroyed.
struct Unit {
	Unit* next = nullptr;
	std::byte* data = nullptr;
	std::uint32_t lkey = 0;
	std::uint32_t length = 0;  // bytes that have arrived, or that are to be sent
	std::uint32_t slot = 0;  // the slot of the connection
	std::uint32_t generation = 0;  // the generation of the connection
	// Sending: the number of the work request. Receiving: the number of bytes that the Inbox has
	// read.
	std::uint32_t number = 0;
	// The number of Messages that refer to the unit, plus 1 while the channel still reads it.
	std::uint16_t references = 0;
	// True: when the unit is released, it makes no further unit free to be granted. With a shared
	// queue, its frame had no credit and used up a unit that backed a credit of another connection.
	// With RecvMode::per_connection, another unit was posted in its place, or its frame was
	// refused.
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

// Owns a list of units, linked by `next`, which go back to the pool together.
struct GiveBack {
	UnitPool* pool = nullptr;
	void operator()(Unit* list) const {
		for (Unit *unit = list, *next; unit != nullptr; unit = next) {
			next = unit->next;
			pool->give_back(unit);
		}
	}
};
using UnitList = std::unique_ptr<Unit, GiveBack>;

}  // namespace verbena::channel

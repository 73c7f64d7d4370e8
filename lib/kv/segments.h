// SPDX-License-Identifier: Apache-2.0
// Segments: the memory of a store's arena, registered so that peers can access it by RDMA through
// one device or several, and the Buffers for values in it.
//
// Threads: one, the store's.
// Owns: the memory and its registrations.
// Lifetime: dies before its pools. All Buffers that buffer_of() returned end before it dies.
// Errors: segment() returns null if memory is lacking or cannot be registered.
#pragma once

#include <deque>
#include <vector>

#include "base/check.h"
#include "lib/channel/memory.h"
#include "lib/channel/region_memory.h"
#include "lib/kv/item.h"
#include "lib/kv/registrations.h"
#include "lib/kv/state/arena.h"

namespace verbena::kv {

class Segments final : public Arena::Memory, private channel::BlockOwner {
public:
	// Null: the memory is not registered, and there are no Buffers.
	explicit Segments(channel::MemoryPool* pool) {
		if (pool != nullptr) pools_.push_back(pool);
	}
	~Segments() { check(in_use_ == 0, "buffers are destroyed before their segments"); }

	// Registers all segments, and those to come, with this pool too. Returns false if that is not
	// possible; then nothing has changed.
	bool share(channel::MemoryPool& pool);
	// Returns the value's bytes as memory that is registered with this pool, which must be one of
	// the pools. The Buffer holds the value until the last reference and the last lease have ended.
	channel::Buffer buffer_of(Value value, Item& item, const channel::MemoryPool& pool);
	// The number of values that have a Buffer.
	std::size_t in_use() const { return in_use_; }

	// Arena::Memory
	std::byte* segment(std::size_t bytes) override;

private:
	struct Segment {
		channel::RegionMemory memory;
		Registrations registrations;
		std::span<std::byte> bytes() const { return {memory.data(), memory.size()}; }
	};
	struct Held : channel::Block {
		Value value;
	};
	// BlockOwner
	void give_back(channel::Block* block) override;

	std::vector<channel::MemoryPool*> pools_;
	std::vector<Segment> segments_;
	std::deque<Held> held_;  // a deque, because Buffers refer to elements
	channel::Block* free_ = nullptr;
	std::size_t in_use_ = 0;
};

}  // namespace verbena::kv

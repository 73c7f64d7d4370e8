// SPDX-License-Identifier: Apache-2.0
// The adapter's queue pairs, found by number. An adapter owns blocks of 4,096 QPNs. A secret
// permutation hides the order in which a block's numbers are assigned, so that peers cannot guess
// the next one, and objects are packed in the order of creation, whatever their numbers are.
//
// Threads: one at a time, under the engine's lock.
// Owns: the QueuePair objects. A pointer stays valid until destroy(); memory is never moved.
// Invariants: a freed number is reused only after every other free number, so that late packets of
//   the old connection do not reach a new queue pair.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/prefetch.h"
#include "nic/transport/queue_pair.h"

namespace verbena::adapter {

class QpTable {
public:
	static constexpr std::uint32_t block_size = 4096;

	QpTable() = default;
	~QpTable();
	QpTable(const QpTable&) = delete;
	QpTable& operator=(const QpTable&) = delete;

	// Adds QPNs [block * 4096, (block + 1) * 4096). `secret` selects the permutation. Each block is
	// added at most once; `block` is less than 4,096. Throws std::bad_alloc, and changes nothing
	// then.
	void add_block(std::uint32_t block, std::uint64_t secret);
	bool full() const { return free_count_ == 0; }

	// Returns a new queue pair in the reset state, or null if no number is free.
	transport::QueuePair* create();
	void destroy(transport::QueuePair&);

	// Returns null for a number that no queue pair has. Any 24-bit value is allowed: it may come
	// from a peer.
	transport::QueuePair* find(wire::Qpn qpn) const {
		const Block* block = blocks_[qpn.value >> 12 & 0xfff].get();
		if (!block) return nullptr;
		transport::QueuePair& qp = block->pairs[block->index_of(qpn.value)];
		return qp.qpn == qpn.value ? &qp : nullptr;
	}

	// Loads the queue pair's state into the cache, for a packet that is about to be handled.
	void prefetch(wire::Qpn qpn) const {
		if (const Block* const block = blocks_[qpn.value >> 12 & 0xfff].get())
			verbena::prefetch(&block->pairs[block->index_of(qpn.value)], sizeof(transport::QueuePair));
	}

	// True if the number lies in a block of this adapter, whether or not a queue pair has it.
	bool owns(wire::Qpn qpn) const { return blocks_[qpn.value >> 12 & 0xfff] != nullptr; }

	template <class Visit> void for_each(Visit&& visit) {
		for (auto& block : blocks_)
			if (block)
				for (std::uint32_t i = 0; i < block->used; ++i)
					if (block->pairs[i].qpn) visit(block->pairs[i]);
	}
	std::uint32_t count() const { return count_; }

private:
	struct Block {
		transport::QueuePair* pairs;  // reserved address space, committed page by page on first use
		std::uint32_t number;
		std::uint32_t used = 0;  // objects [0, used) have been constructed
		// The permutation: index * multiplier + offset modulo 4,096, with an odd multiplier.
		std::uint32_t multiplier, inverse, offset;

		std::uint32_t index_of(std::uint32_t qpn) const { return ((qpn - offset) * inverse) & (block_size - 1); }
		std::uint32_t qpn_of(std::uint32_t index) const {
			return number << 12 | ((index * multiplier + offset) & (block_size - 1));
		}
	};
	struct Free {
		Block* block;
		std::uint32_t index;
	};

	void push_free(Free);

	std::array<std::unique_ptr<Block>, 4096> blocks_;
	// A ring, oldest first, with room for every number, so that destroy() needs no memory.
	std::vector<Free> free_;
	std::uint32_t free_first_ = 0, free_count_ = 0;
	std::uint32_t count_ = 0;
};

}  // namespace verbena::adapter

// Queue pairs by number. A NIC owns blocks of 4,096 QPNs; within a block, numbers are handed out in an order that a
// keyed permutation hides, and a freed number rests until all others of its block have been used. Objects lie densely
// in the order of creation, whatever their numbers.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>

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

	// Adds QPNs [block * 4096, (block + 1) * 4096). `secret` picks the permutation.
	void add_block(std::uint32_t block, std::uint64_t secret);
	bool full() const { return free_.empty(); }

	transport::QueuePair* create();  // null: no number is free
	void destroy(transport::QueuePair&);

	transport::QueuePair* find(wire::Qpn qpn) const {
		const Block* block = blocks_[qpn.value >> 12 & 0xfff].get();
		if (!block) return nullptr;
		transport::QueuePair& qp = block->pairs[block->index_of(qpn.value)];
		return qp.qpn == qpn.value ? &qp : nullptr;
	}

	// It will be wanted soon.
	void prefetch(wire::Qpn qpn) const {
		if (const Block* const block = blocks_[qpn.value >> 12 & 0xfff].get())
			verbena::prefetch(&block->pairs[block->index_of(qpn.value)], sizeof(transport::QueuePair));
	}

	// The number is one of this adapter's, whether a QP has it or not.
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
		transport::QueuePair* pairs;  // reserved address space, touched as it is used
		std::uint32_t number;
		std::uint32_t used = 0;  // objects [0, used) have been constructed
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

	std::array<std::unique_ptr<Block>, 4096> blocks_;
	std::deque<Free> free_;
	std::uint32_t count_ = 0;
};

}  // namespace verbena::adapter

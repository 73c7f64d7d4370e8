// SPDX-License-Identifier: Apache-2.0
#include "nic/adapter/qp_table.h"

#include <new>
#include <sys/mman.h>

#include "base/check.h"

namespace verbena::adapter {

using transport::QueuePair;

QpTable::~QpTable() {
	for (auto& block : blocks_) {
		if (!block) continue;
		for (std::uint32_t i = 0; i < block->used; ++i) block->pairs[i].~QueuePair();
		munmap(block->pairs, block_size * sizeof(QueuePair));
	}
}

void QpTable::add_block(std::uint32_t number, std::uint64_t secret) {
	check(number < blocks_.size() && !blocks_[number], "a QPN block is added once");
	auto block = std::make_unique<Block>();
	std::vector<Free> larger(free_.size() + block_size);
	void* memory = mmap(nullptr, block_size * sizeof(QueuePair), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED) throw std::bad_alloc();
	block->pairs = static_cast<QueuePair*>(memory);
	block->number = number;
	block->multiplier = static_cast<std::uint32_t>(secret) | 1;
	block->offset = static_cast<std::uint32_t>(secret >> 32);
	// The inverse of an odd number modulo 2^32, by Newton's iteration: each round doubles the
	// number of correct low bits.
	block->inverse = 1;
	for (int i = 0; i < 5; ++i) block->inverse *= 2 - block->multiplier * block->inverse;
	for (std::uint32_t i = 0; i < free_count_; ++i) larger[i] = free_[(free_first_ + i) % free_.size()];
	free_ = std::move(larger);
	free_first_ = 0;
	for (std::uint32_t i = 0; i < block_size; ++i) push_free({block.get(), i});
	blocks_[number] = std::move(block);
}

void QpTable::push_free(Free free) {
	free_[(free_first_ + free_count_++) % static_cast<std::uint32_t>(free_.size())] = free;
}

QueuePair* QpTable::create() {
	if (full()) return nullptr;
	const std::uint32_t index = free_[free_first_].index;
	Block& block = *free_[free_first_].block;
	free_first_ = (free_first_ + 1) % static_cast<std::uint32_t>(free_.size());
	--free_count_;
	for (; block.used <= index; ++block.used) new (&block.pairs[block.used]) QueuePair();
	QueuePair& qp = block.pairs[index];
	qp.qpn = block.qpn_of(index);
	++count_;
	return &qp;
}

void QpTable::destroy(QueuePair& qp) {
	Block* block = blocks_[qp.qpn >> 12].get();
	const std::uint32_t index = block->index_of(qp.qpn);
	qp.~QueuePair();
	new (&qp) QueuePair();
	push_free({block, index});
	--count_;
}

}  // namespace verbena::adapter

// SPDX-License-Identifier: Apache-2.0
// The message of one channel that arrives in several pieces: copied from frames, or read by RDMA
// from the sender's memory.
//
// With direct operations it lies in registered memory, otherwise on the heap.
//
// Threads: the loop's thread.
// Owns: the message's memory, until take().
// Invariants: the caller has checked sizes against `message_max` and missing().
#pragma once

#include <cstring>

#include "lib/channel/heap_message.h"
#include "lib/channel/memory.h"

namespace verbena::channel {

class Assembly {
public:
	bool begun() const { return begun_; }
	bool placed() const { return begun_ && placed_ == size_; }  // every byte has its piece
	bool complete() const { return placed() && reading_ == 0; }
	std::size_t size() const { return size_; }
	std::size_t missing() const { return size_ - placed_; }
	// The amount still missing, in bytes plus READs under way: it falls while the peer makes
	// progress, and is 0 when nothing is awaited.
	std::size_t left() const { return begun_ ? missing() + reading_ : 0; }

	// Begins a message of `size` bytes, in the pool's memory or, with null, on the heap. False:
	// there is no memory. A pool may have some again when buffers go back to it.
	bool begin(std::size_t size, MemoryPool* pool) {
		if (pool != nullptr) buffer_ = pool->take(size);
		else block_ = make_heap_block(size);
		begun_ = buffer_ || block_;
		size_ = size;
		placed_ = 0;
		return begun_;
	}
	// Appends bytes; at most missing().
	void copy(std::span<const std::byte> piece) {
		std::memcpy((block_ ? block_.get() : buffer_.data()) + placed_, piece.data(), piece.size());
		placed_ += piece.size();
	}
	// Reserves the place for a piece that is about to be read by RDMA. Only in a pool's memory.
	Place read(std::size_t length) {
		++reading_;
		return {buffer_, std::exchange(placed_, placed_ + length), length};
	}
	void handle_reads(std::uint32_t count) { reading_ -= count; }

	// The message, when complete(); the next one may begin then.
	Message take() {
		begun_ = false;
		if (block_) return heap_message(std::move(block_), size_);
		return buffer_message(std::move(buffer_));
	}

private:
	HeapBlock block_;
	Buffer buffer_;
	std::size_t size_ = 0, placed_ = 0;
	std::uint32_t reading_ = 0;
	bool begun_ = false;
};

}  // namespace verbena::channel

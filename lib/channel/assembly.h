// Assembly: the message of one channel that arrives in several pieces, copied from frames or read from the sender's
// memory.
//
// On channels with direct operations it lies in registered memory, otherwise on the heap. Sizes were checked against
// `message_max`.
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
	// What is still to come, in bytes and READs: falls while the peer is at work; 0 when nothing is awaited.
	std::size_t left() const { return begun_ ? missing() + reading_ : 0; }

	// False: no memory. With a pool that may change, when buffers go back to it.
	bool begin(std::size_t size, MemoryPool* pool) {
		if (pool != nullptr) buffer_ = pool->take(size);
		else block_ = make_heap_block(size);
		begun_ = buffer_ || block_;
		size_ = size;
		placed_ = 0;
		return begun_;
	}
	// Not more than is missing.
	void copy(std::span<const std::byte> piece) {
		std::memcpy((block_ ? block_.get() : buffer_.data()) + placed_, piece.data(), piece.size());
		placed_ += piece.size();
	}
	// Where the next piece is to be read to; needs a pool.
	Place read(std::size_t length) {
		++reading_;
		return {buffer_, std::exchange(placed_, placed_ + length), length};
	}
	void handle_reads(std::uint32_t count) { reading_ -= count; }

	// Once it is complete.
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

// SPDX-License-Identifier: Apache-2.0
// Messages whose bytes lie in a block of their own, on the heap or in registered memory.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "lib/channel/channel.h"

namespace verbena::channel {

struct FreeBlock {
	void operator()(std::byte* block) const { std::free(block); }
};
using HeapBlock = std::unique_ptr<std::byte, FreeBlock>;

// Null if there is no memory. Not operator new: `bytes` may be a number that a peer has sent.
inline HeapBlock make_heap_block(std::size_t bytes) {
	return HeapBlock(static_cast<std::byte*>(std::malloc(std::max<std::size_t>(bytes, 1))));
}

inline Message heap_message(HeapBlock block, std::size_t bytes) {
	struct Owner final : MessageOwner {
		void release(void* token) override { std::free(token); }
	};
	static Owner owner;
	std::byte* const at = block.release();
	return {{at, bytes}, &owner, at};
}

inline Message buffer_message(Buffer buffer) {
	struct Owner final : MessageOwner {
		void release(void* token) override { Buffer::drop(static_cast<Block*>(token)); }
	};
	static Owner owner;
	const std::span<std::byte> bytes = buffer.bytes();
	return {bytes, &owner, buffer.release()};
}

}  // namespace verbena::channel

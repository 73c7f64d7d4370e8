// Messages whose bytes lie in a block of their own on the heap.
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

// Null if there is no memory: `bytes` may be a peer's word.
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

}  // namespace verbena::channel

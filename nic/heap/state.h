// The heap's state, for the files of this folder.
//
// Threads: the fields are protected by the lock, except `mode`.
// Lifetime: never destroyed, because programs free memory from their own destructors and exit
//   handlers.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <mutex>

#include "nic/heap/file.h"
#include "nic/heap/heap.h"
#include "nic/heap/moved.h"
#include "nic/heap/page_map.h"

namespace verbena::heap {

enum class Mode : std::uint8_t {
	unread,  // the environment has not been read
	off,  // no block is served
	on,
};

struct State {
	std::mutex mutex;
	PageMap map;
	File file;
	Moved moved;
	std::byte* begin = nullptr;
	std::size_t opened = 0;  // pages that the program may access; those behind are PROT_NONE
	pid_t owner = 0;  // the process that made the heap
	bool copied = false;  // this is a child, and the blocks are its private copies

	bool made() const { return begin != nullptr; }
	// False in a child that was made without fork handlers (clone, vfork): the heap is its
	// parent's, and the child must not change it.
	bool is_mine() const { return copied || owner == getpid(); }
	std::byte* at(std::size_t page) const { return begin + page * page_bytes; }
	std::size_t page_of(const void* address) const {
		return static_cast<std::size_t>(static_cast<const std::byte*>(address) - begin) / page_bytes;
	}
};

extern constinit State state;
extern constinit std::atomic<Mode> mode;

// The pages that contain [address, address + bytes), which begins in the heap's range. `bytes` must
// not pass the end of the range.
Pages pages_around(const State& heap, const void* address, std::size_t bytes);

}  // namespace verbena::heap

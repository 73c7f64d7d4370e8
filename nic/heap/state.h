// SPDX-License-Identifier: Apache-2.0
// The heap's state, for the files of this folder.
//
// Threads: the fields are protected by the lock, except `mode`.
// Lifetime: never destroyed, because programs free memory from their own destructors and exit
//   handlers.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>

#include "nic/heap/file.h"
#include "nic/heap/heap.h"
#include "nic/heap/moved.h"
#include "nic/heap/page_map.h"
#include "nic/heap/segments.h"

namespace verbena::heap {

enum class Mode : std::uint8_t {
	unread,  // the environment has not been read
	off,  // no block is served
	on,
};

// A range in one live block.
struct Located {
	Pages pages;  // those that contain it
	std::size_t within;  // where it begins in the first of them
};

struct State {
	std::mutex mutex;
	PageMap map;
	Segments segments;
	Moved moved;
	std::byte* begin = nullptr;
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
	// Finds a range that begins in the heap. Nothing if it is not in one block that this process
	// shares with peers.
	std::optional<Located> locate(const void* address, std::size_t bytes) const;
	// Calls visit(pages, file, offset) for the parts of these pages, in order, each of which lies
	// in one file.
	template <class Visit> void for_files(Pages pages, Visit visit) const {
		while (pages.count > 0) {
			const PlacedPages* const next_moved = moved.find(pages);
			const bool here = next_moved != nullptr && next_moved->pages.first <= pages.first;
			const PlacedPages& placed = here ? *next_moved : segments.at(pages.first);
			std::size_t end = std::min(placed.pages.end(), pages.end());
			if (!here && next_moved != nullptr) end = std::min(end, next_moved->pages.first);
			visit(Pages{pages.first, end - pages.first}, placed.file, placed.offset_of(pages.first));
			pages = {end, pages.end() - end};
		}
	}
};

extern constinit State state;
extern constinit std::atomic<Mode> mode;

}  // namespace verbena::heap

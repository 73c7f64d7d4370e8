// SPDX-License-Identifier: Apache-2.0
// The pages of the heap that lie in files of their own, because move() has put them there.
//
// Threads: none; the heap's lock protects it.
// Owns: the files. A file is closed when no page lies in it any more.
// Invariants: the entries do not overlap, and each lies in one block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nic/heap/file.h"
#include "nic/heap/page_map.h"

namespace verbena::heap {

// Consecutive pages that lie in one file.
struct PlacedPages {
	Pages pages;
	File file;
	std::uint64_t offset = 0;  // the first page's, in the file

	std::uint64_t offset_of(std::size_t page) const { return offset + (page - pages.first) * page_bytes; }
};

class Moved {
public:
	static constexpr std::size_t entries_max = 1024;

	// True if add() has room for any range.
	bool has_room() const { return count_ + 2 <= entries_max; }
	// Records that the pages lie at the beginning of this file, and no longer where they did.
	void add(Pages pages, const File& file);
	// Forgets these pages, and closes the files that hold no others.
	void remove(Pages pages);
	// The entry with the lowest pages that overlap these, or null.
	const PlacedPages* find(Pages pages) const;
	bool empty() const { return count_ == 0; }
	// A fork's child forgets and closes them all.
	void close_all();

private:
	std::span<PlacedPages> entries() { return {entries_.data(), count_}; }
	std::span<const PlacedPages> entries() const { return {entries_.data(), count_}; }
	void close_if_unused(const File& file);

	std::array<PlacedPages, entries_max> entries_{};
	std::size_t count_ = 0;
};

}  // namespace verbena::heap

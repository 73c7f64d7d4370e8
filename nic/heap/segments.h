// SPDX-License-Identifier: Apache-2.0
// The files of the heap: consecutive parts of its address range, each of which lies in one file.
//
// There is more than one file, because a peer maps whole files, and because a core dump and
// mlockall(2) allocate each page of what is mapped. A file is about as large as all before it.
//
// Threads: none; the heap's lock protects it.
// Owns: the files, which stay as long as the process lives.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/check.h"
#include "nic/heap/file.h"
#include "nic/heap/moved.h"
#include "nic/heap/page_map.h"

namespace verbena::heap {

class Segments {
public:
	static constexpr std::size_t segments_max = 512;

	bool full() const { return count_ == segments_max; }
	// Adds pages behind those of the last segment.
	void add(Pages pages, const File& file) { segments_[count_++] = {pages, file, 0}; }
	// The segment that contains this page.
	const PlacedPages& at(std::size_t page) const {
		for (const PlacedPages& segment : all())
			if (page < segment.pages.end()) return segment;
		check_failed("a page behind all files of the heap", std::source_location::current());
	}
	std::span<const PlacedPages> all() const { return {segments_.data(), count_}; }

private:
	std::array<PlacedPages, segments_max> segments_{};
	std::size_t count_ = 0;
};

}  // namespace verbena::heap

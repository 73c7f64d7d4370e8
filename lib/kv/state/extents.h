// SPDX-License-Identifier: Apache-2.0
// Extents: the pages of an arena's segments. An extent is a number of consecutive pages of one
// segment, free or in use; together the extents of a segment are all of its pages.
//
// Free extents are kept in lists by their length, eight for each doubling, so take() finds one
// that is only a little larger than needed. Neighbours that are free become one extent.
//
// A page has a number: its segment's index in the high bits, its position in the segment in the
// low ones.
//
// Threads: any one at a time. No I/O: the caller provides the memory and moves its bytes.
// Owns: a Page for each page (32 bytes), not the pages.
// Errors: take() returns `none` if no free extent is long enough.
// Invariants: no two free extents are neighbours. Page::first is right in the first and the last
//   page of each extent, the other members of Page in the first one.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace verbena::kv {

struct Page {
	enum class Kind : std::uint8_t { free, blocks, whole };

	std::uint32_t first = 0;  // the number of the first page of this extent
	std::uint32_t pages = 0;  // the length of the extent
	// Links in a list of free extents, or in a list of runs of blocks (arena.h).
	std::uint32_t next = 0, previous = 0;
	// Kind::blocks: bit i is set if block i is free; the number of such bits; the run's size class;
	// the list in which it is.
	std::uint64_t free_blocks = 0;
	std::uint8_t free_count = 0;
	std::uint8_t size_class = 0;
	std::uint8_t list = 0;
	Kind kind = Kind::free;
	bool stuck = false;           // cannot be moved now (arena.cc)
};
static_assert(sizeof(Page) == 32);

class Extents {
public:
	static constexpr std::size_t page_bytes = 4096;
	static constexpr std::uint32_t none = ~0u;
	static constexpr unsigned position_bits = 19;
	// The most pages of a segment, and the most segments.
	static constexpr std::uint32_t pages_max = (1u << position_bits) - 1;
	static constexpr std::size_t segments_max = 1u << (32 - position_bits);

	// Adds a segment of `pages` pages, all free. `memory` is page-aligned and outlives this object.
	void add(std::byte* memory, std::uint32_t pages);

	// Takes an extent of this many pages for the caller, who sets its kind. Returns its first page.
	std::uint32_t take(std::uint32_t pages);
	// True if take() would find one.
	bool has(std::uint32_t pages) const { return pages <= pages_max && find(pages) != none; }
	// Frees an extent that take() has returned, or that place() has placed.
	void give_back(std::uint32_t first);

	// For moving extents towards the begin of their segment: detaches a free extent from its list,
	// so that take() does not find it.
	void detach(std::uint32_t first);
	// Places an extent in detached pages, with a copy of `head` and the pages that it says.
	void place(std::uint32_t first, const Page& head);
	// Makes detached pages a free extent again.
	void attach(std::uint32_t first, std::uint32_t pages);

	Page& at(std::uint32_t number) { return segments_[number >> position_bits].pages[number & pages_max]; }
	const Page& at(std::uint32_t number) const { return segments_[number >> position_bits].pages[number & pages_max]; }
	std::byte* address(std::uint32_t number) const {
		return segments_[number >> position_bits].memory + (number & pages_max) * page_bytes;
	}
	// The number of the page that contains this byte, which lies in a segment.
	std::uint32_t number_of(const std::byte* byte) const;

	std::size_t segments() const { return segments_.size(); }
	// The first page of a segment, and the number behind its last page.
	static std::uint32_t begin_of(std::size_t segment) { return static_cast<std::uint32_t>(segment << position_bits); }
	std::uint32_t end_of(std::size_t segment) const { return begin_of(segment) + segments_[segment].count; }

	std::size_t pages() const { return pages_; }            // in all segments
	std::size_t free_pages() const { return free_pages_; }  // detached ones do not count

	// Checks the invariants, for tests. Returns the first broken one, or null.
	const char* broken() const;

private:
	struct Segment {
		std::byte* memory;
		std::uint32_t count;
		std::unique_ptr<Page[]> pages;
	};
	struct Located {
		const std::byte* memory;
		std::uint32_t segment;
	};
	static constexpr std::uint32_t exact_max = 16;  // shorter extents have a list for each length
	static constexpr std::uint32_t list_count = exact_max + (position_bits - 4) * 8 + 8;

	static std::uint32_t list_of(std::uint32_t pages) {
		if (pages < exact_max) return pages;
		const auto doublings = static_cast<std::uint32_t>(std::bit_width(pages)) - 1;
		return exact_max + (doublings - 4) * 8 + ((pages >> (doublings - 3)) & 7);
	}
	std::uint32_t find(std::uint32_t pages) const;
	std::uint32_t list_from(std::uint32_t list) const;
	void link(std::uint32_t first);
	void unlink(std::uint32_t first);

	std::vector<Segment> segments_;
	std::vector<Located> located_;  // sorted by address
	std::array<std::uint32_t, list_count> lists_ = empty_lists();
	std::array<std::uint64_t, (list_count + 63) / 64> filled_{};  // bit i: list i is not empty
	std::size_t pages_ = 0, free_pages_ = 0;

	static constexpr std::array<std::uint32_t, list_count> empty_lists() {
		std::array<std::uint32_t, list_count> lists{};
		lists.fill(none);
		return lists;
	}
};

}  // namespace verbena::kv

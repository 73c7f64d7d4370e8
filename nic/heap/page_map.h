// SPDX-License-Identifier: Apache-2.0
// The page allocator: which pages of a range are taken, and where each block of them begins.
//
// It hands out runs of pages, first fit, at natural alignment, and knows nothing of addresses or of
// what the pages contain.
//
// Threads: none; the heap's lock protects it.
// Owns: nothing. Its bitmaps lie in memory that the caller gives it, zeroed, for as long as it is
//   used: a page allocator below malloc() cannot call malloc().
// Invariants: a page with any other mark is taken. The first page of each block is marked `first`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace verbena::heap {

inline constexpr std::size_t page_bytes = 4096;

// One bit for each page.
class Marks {
public:
	Marks() = default;
	explicit constexpr Marks(std::uint64_t* words) : words_(words) {}
	bool operator[](std::size_t page) const { return words_[page / 64] >> page % 64 & 1; }
	void set(std::size_t page, std::size_t pages);
	void clear(std::size_t page, std::size_t pages);
	// The first page in [page, end) with this mark, or without it; `end` if there is none.
	std::size_t next(std::size_t page, std::size_t end) const { return search(page, end, 0); }
	std::size_t next_without(std::size_t page, std::size_t end) const { return search(page, end, ~std::uint64_t{0}); }
	// The last page at or before `page` with this mark. There must be one.
	std::size_t last(std::size_t page) const;

private:
	std::size_t search(std::size_t page, std::size_t end, std::uint64_t inverted) const;

	std::uint64_t* words_ = nullptr;
};

struct Pages {
	std::size_t first = 0, count = 0;
	std::size_t end() const { return first + count; }
	friend bool operator==(const Pages&, const Pages&) = default;
};

class PageMap {
public:
	// The bytes of memory that attach() needs for this number of pages.
	static constexpr std::size_t bytes_for(std::size_t pages) { return 4 * words_for(pages) * sizeof(std::uint64_t); }
	// For at most this number of pages; there are none at first.
	void attach(void* memory, std::size_t pages_max);
	// Adds pages at the end. The last of them is never given out, so no block contains pages of two
	// extensions.
	void extend(std::size_t pages);
	std::size_t size() const { return pages_; }
	std::size_t size_max() const { return pages_max_; }

	// Takes `count` free pages that begin at a multiple of `alignment` (a power of two), or returns
	// nothing. `count` is not zero.
	std::optional<Pages> take(std::size_t count, std::size_t alignment);
	// The block that begins at this page, or nothing.
	std::optional<Pages> block_at(std::size_t first) const;
	// The block that contains this page, or nothing.
	std::optional<Pages> block_with(std::size_t page) const;
	// Frees a block. The pages in it that are retired stay taken.
	void give_back(Pages block);
	// Frees the end of a block, which keeps its first `count` pages.
	void shorten(Pages block, std::size_t count);

	// Pages that never become free again. They belong to no block after their block is given back.
	void retire(Pages pages) { retired_.set(pages.first, pages.count); }
	// Pages that a fork's child does not get.
	Marks& hidden() { return hidden_; }
	const Marks& hidden() const { return hidden_; }
	// The next run of pages at or after `page` that are in blocks: not retired, and not hidden.
	std::optional<Pages> next_run(std::size_t page) const;
	// One more than the highest page that was ever taken.
	std::size_t high_water() const { return high_water_; }

private:
	static constexpr std::size_t words_for(std::size_t pages) { return (pages + 63) / 64; }

	Marks taken_, first_, retired_, hidden_;
	std::size_t pages_ = 0, pages_max_ = 0;
	std::size_t lowest_ = 0;  // no page below it is free
	std::size_t high_water_ = 0;
};

}  // namespace verbena::heap

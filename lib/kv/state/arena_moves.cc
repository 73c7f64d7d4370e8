// SPDX-License-Identifier: Apache-2.0
// The part of Arena that moves blocks, so that free bytes come to lie in one piece.
#include <algorithm>
#include <cstring>
#include <vector>

#include "lib/kv/state/arena.h"

namespace verbena::kv {
namespace {

// Closing gaps may move this many times the pages that are wanted, before emptying runs is tried.
constexpr std::size_t cheap = 8;
// emptiest_movable() compares this many runs of one list.
constexpr std::size_t compared_max = 8;
// If this many extents could not be moved, there is no room now.
constexpr std::size_t stuck_max = 256;

}  // namespace

// Returns true if there are now this many free pages in one piece.
bool Arena::make_room(std::uint32_t pages) {
	flush();
	if (extents_.has(pages)) return true;
	for (bool more = true; more;) {
		if (slide(pages, cheap * pages)) return true;
		const std::size_t wanted = extents_.free_pages() + pages;
		for (more = false; extents_.free_pages() < wanted && consolidate();) more = true;
		if (more && extents_.has(pages)) return true;
	}
	return slide(pages, ~std::size_t{0});
}

// Frees the pages of one run by moving its blocks to other runs of its class. Tries first the class
// with the most free bytes. Returns false if no run can be freed.
bool Arena::consolidate() {
	std::array<bool, class_count> tried{};
	while (true) {
		std::uint32_t best = none;
		std::size_t best_bytes = 0;
		for (std::uint32_t i = 0; i < class_count; ++i) {
			// True otherwise: the other runs have room for the blocks of any one.
			if (tried[i] || classes_[i].free_blocks < run_shapes[i].blocks) continue;
			const std::size_t bytes = classes_[i].free_blocks * run_shapes[i].block_bytes;
			if (bytes <= best_bytes) continue;
			best = i;
			best_bytes = bytes;
		}
		if (best == none) return false;
		tried[best] = true;
		if (const std::uint32_t run = emptiest_movable(best); run != none) {
			evacuate(run);
			return true;
		}
	}
}

// The run with the fewest blocks among some of those of which all blocks are movable.
std::uint32_t Arena::emptiest_movable(std::uint32_t size_class) {
	const Class& all = classes_[size_class];
	for (std::size_t list = list_count; list-- > 0;) {
		std::uint32_t best = none;
		unsigned best_free = 0;
		std::size_t compared = 0;
		for (std::uint32_t run = all.lists[list]; run != none && compared < compared_max;
			run = extents_.at(run).next, ++compared) {
			const unsigned free = extents_.at(run).free_count;
			if (free <= best_free || !movable(run)) continue;
			best = run;
			best_free = free;
		}
		if (best != none) return best;
	}
	return none;
}

void Arena::evacuate(std::uint32_t run) {
	const Page& page = extents_.at(run);
	const RunShape& shape = shape_of(page);
	unlist(run);
	classes_[page.size_class].free_blocks -= page.free_count;
	for (std::uint64_t used = shape.all() & ~page.free_blocks; used != 0; used &= used - 1)
		move(block_at(run, static_cast<unsigned>(std::countr_zero(used))), take_listed(page.size_class),
			shape.block_bytes);
	extents_.give_back(run);
}

// Joins the gaps in a part of one segment, by moving the extents between them, so that they become
// `pages` free pages. Moves `used_max` pages at most. Returns false if there is no such part.
bool Arena::slide(std::uint32_t pages, std::size_t used_max) {
	if (extents_.free_pages() < pages) return false;
	std::vector<std::uint32_t> stuck;
	bool done = false;
	for (std::size_t i = 0; i < extents_.segments() && !done; ++i) {
		const std::size_t segment = (hand_ + i) % extents_.segments();
		while (stuck.size() < stuck_max) {
			const Window window = cheapest(segment, pages);
			if (window.begin == none || window.used > used_max) break;
			if (const std::uint32_t found = first_stuck(window); found != none) {
				extents_.at(found).stuck = true;
				stuck.push_back(found);
				continue;
			}
			hand_ = segment + 1;
			close_gaps(window);
			done = true;
			break;
		}
	}
	for (const std::uint32_t each : stuck) extents_.at(each).stuck = false;
	return done;
}

// The part of the segment with this many free pages, the fewest pages in use between them, and
// nothing that is stuck.
Arena::Window Arena::cheapest(std::size_t segment, std::uint32_t pages) const {
	Window best{.used = ~std::size_t{0}};
	std::uint32_t left = Extents::begin_of(segment);
	std::size_t free = 0, used = 0;
	for (std::uint32_t each = left; each < extents_.end_of(segment); each += extents_.at(each).pages) {
		const Page& page = extents_.at(each);
		if (page.stuck) {
			left = each + page.pages;
			free = used = 0;
			continue;
		}
		if (page.kind != Page::Kind::free) {
			used += page.pages;
			continue;
		}
		free += page.pages;
		// Leaves out what is not needed at the begin.
		while (left != each) {
			const Page& first = extents_.at(left);
			const bool is_free = first.kind == Page::Kind::free;
			if (is_free && free - first.pages < pages) break;
			(is_free ? free : used) -= first.pages;
			left += first.pages;
		}
		if (free < pages || used >= best.used) continue;
		best = {.begin = left, .end = each + page.pages, .used = used};
		if (used <= pages) break;  // no more work than to write the block that comes
	}
	return best;
}

std::uint32_t Arena::first_stuck(const Window& window) const {
	for (std::uint32_t each = window.begin; each < window.end; each += extents_.at(each).pages)
		if (extents_.at(each).kind != Page::Kind::free && !movable(each)) return each;
	return none;
}

void Arena::close_gaps(const Window& window) {
	std::uint32_t to = window.begin;
	for (std::uint32_t each = window.begin; each < window.end;) {
		const Page page = extents_.at(each);
		if (page.kind == Page::Kind::free) {
			extents_.detach(each);
		} else {
			if (to != each) move_extent(each, to);
			to += page.pages;
		}
		each += page.pages;
	}
	extents_.attach(to, window.end - to);
}

// Moves an extent to lower pages, which it may overlap. Its blocks are moved in ascending order:
// the bytes of a block are overwritten only by its own, or after they have been moved.
void Arena::move_extent(std::uint32_t from, std::uint32_t to) {
	Page page = extents_.at(from);
	if (page.kind == Page::Kind::whole) {
		extents_.place(to, page);
		return move(extents_.address(from), extents_.address(to), page.pages * Extents::page_bytes);
	}
	unlist(from);
	page.list = unlisted;
	extents_.place(to, page);
	for (std::uint32_t i = 0; i < page.pages; ++i) extents_.at(to + i).first = to;
	list(to);
	const RunShape& shape = shape_of(page);
	for (std::uint64_t used = shape.all() & ~page.free_blocks; used != 0; used &= used - 1) {
		const std::size_t offset = std::size_t{shape.block_bytes} * static_cast<unsigned>(std::countr_zero(used));
		move(extents_.address(from) + offset, extents_.address(to) + offset, shape.block_bytes);
	}
}

void Arena::move(std::byte* from, std::byte* to, std::size_t bytes) {
	std::memmove(to, from, bytes);
	holder_.moved(from, to);
	++counters_.moved;
	counters_.moved_bytes += bytes;
}

// True if every block of this extent is movable.
bool Arena::movable(std::uint32_t extent) const {
	const Page& page = extents_.at(extent);
	if (page.kind == Page::Kind::whole) return holder_.movable(extents_.address(extent));
	for (std::uint64_t used = shape_of(page).all() & ~page.free_blocks; used != 0; used &= used - 1)
		if (!holder_.movable(block_at(extent, static_cast<unsigned>(std::countr_zero(used))))) return false;
	return true;
}

}  // namespace verbena::kv

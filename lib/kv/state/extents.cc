// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/state/extents.h"

#include <algorithm>

#include "base/check.h"

namespace verbena::kv {
namespace {

// A list has extents of about the same length. This many of them are looked at for one that fits.
constexpr int looked_at_max = 8;

}  // namespace

void Extents::add(std::byte* memory, std::uint32_t pages) {
	check(pages > 0 && pages <= pages_max && segments_.size() < segments_max, "a segment has pages, and a number");
	const auto index = static_cast<std::uint32_t>(segments_.size());
	segments_.push_back({.memory = memory, .count = pages, .pages = std::make_unique<Page[]>(pages)});
	const auto behind = std::ranges::lower_bound(located_, memory, {}, &Located::memory);
	located_.insert(behind, {.memory = memory, .segment = index});
	pages_ += pages;
	attach(begin_of(index), pages);
}

std::uint32_t Extents::number_of(const std::byte* byte) const {
	const Located& found = *(std::ranges::upper_bound(located_, byte, {}, &Located::memory) - 1);
	return begin_of(found.segment) + static_cast<std::uint32_t>((byte - found.memory) / page_bytes);
}

// The first list that is not empty, from this one on.
std::uint32_t Extents::list_from(std::uint32_t list) const {
	std::size_t word = list / 64;
	std::uint64_t bits = word < filled_.size() ? filled_[word] >> (list % 64) << (list % 64) : 0;
	while (bits == 0 && ++word < filled_.size()) bits = filled_[word];
	return bits == 0 ? none : static_cast<std::uint32_t>(word * 64 + static_cast<unsigned>(std::countr_zero(bits)));
}

// A free extent of at least this many pages: one of the same list, or the first of a longer list.
std::uint32_t Extents::find(std::uint32_t pages) const {
	const std::uint32_t own = list_of(pages);
	std::uint32_t each = lists_[own];
	for (int i = 0; i < looked_at_max && each != none; ++i, each = at(each).next)
		if (at(each).pages >= pages) return each;
	if (const std::uint32_t longer = list_from(own + 1); longer != none) return lists_[longer];
	// Only this list is left.
	while (each != none && at(each).pages < pages) each = at(each).next;
	return each;
}

std::uint32_t Extents::take(std::uint32_t pages) {
	if (pages > pages_max) return none;
	const std::uint32_t found = find(pages);
	if (found == none) return none;
	const std::uint32_t all = at(found).pages;
	unlink(found);
	at(found + pages - 1).first = found;
	at(found) = {.first = found, .pages = pages, .kind = Page::Kind::whole};
	if (all > pages) attach(found + pages, all - pages);
	return found;
}

void Extents::give_back(std::uint32_t first) { attach(first, at(first).pages); }

void Extents::detach(std::uint32_t first) { unlink(first); }

void Extents::place(std::uint32_t first, const Page& head) {
	at(first + head.pages - 1).first = first;
	at(first) = head;
	at(first).first = first;
}

void Extents::attach(std::uint32_t first, std::uint32_t pages) {
	const std::uint32_t segment = first >> position_bits, end = first + pages;
	if (first != begin_of(segment)) {
		const std::uint32_t before = at(first - 1).first;
		if (at(before).kind == Page::Kind::free && at(before).pages == first - before) {
			unlink(before);
			pages += at(before).pages;
			first = before;
		}
	}
	if (end != end_of(segment) && at(end).kind == Page::Kind::free) {
		pages += at(end).pages;
		unlink(end);
	}
	at(first + pages - 1).first = first;
	at(first) = {.first = first, .pages = pages, .kind = Page::Kind::free};
	link(first);
}

void Extents::link(std::uint32_t first) {
	Page& page = at(first);
	const std::uint32_t list = list_of(page.pages);
	page.previous = none;
	page.next = lists_[list];
	if (page.next != none) at(page.next).previous = first;
	lists_[list] = first;
	filled_[list / 64] |= std::uint64_t{1} << (list % 64);
	free_pages_ += page.pages;
}

void Extents::unlink(std::uint32_t first) {
	const Page& page = at(first);
	const std::uint32_t list = list_of(page.pages);
	if (page.next != none) at(page.next).previous = page.previous;
	if (page.previous != none) at(page.previous).next = page.next;
	else lists_[list] = page.next;
	if (lists_[list] == none) filled_[list / 64] &= ~(std::uint64_t{1} << (list % 64));
	free_pages_ -= page.pages;
}

const char* Extents::broken() const {
	std::size_t free = 0, linked = 0;
	for (std::size_t segment = 0; segment < segments_.size(); ++segment) {
		bool free_before = false;
		std::uint32_t each = begin_of(segment);
		for (; each < end_of(segment); each += at(each).pages) {
			const Page& page = at(each);
			if (page.pages == 0 || page.first != each) return "an extent has pages and knows its first one";
			if (at(each + page.pages - 1).first != each) return "the last page of an extent knows the first one";
			const bool is_free = page.kind == Page::Kind::free;
			if (is_free && free_before) return "two free extents are no neighbours";
			free_before = is_free;
			if (is_free) free += page.pages;
		}
		if (each != end_of(segment)) return "the extents of a segment are all of its pages";
	}
	for (std::uint32_t list = 0; list < list_count; ++list) {
		for (std::uint32_t each = lists_[list]; each != none; each = at(each).next) {
			if (list_of(at(each).pages) != list) return "a free extent is in the list for its length";
			linked += at(each).pages;
		}
		if ((lists_[list] != none) != ((filled_[list / 64] >> (list % 64) & 1) != 0))
			return "a list is marked as filled";
	}
	return free == free_pages_ && linked == free ? nullptr : "every free page counts, and can be found";
}

}  // namespace verbena::kv

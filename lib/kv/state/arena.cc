// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/state/arena.h"

#include <algorithm>

#include "base/check.h"

namespace verbena::kv {

Arena::Arena(std::size_t bytes_max, Memory& memory, Holder& holder)
	: memory_(memory), holder_(holder), bytes_max_(std::min(bytes_max, bytes_most)) {}

std::byte* Arena::take_new(std::size_t bytes) {
	std::byte* block = nullptr;
	if (bytes <= block_max) {
		block = take_block(class_of(bytes));
	} else if (const std::size_t pages = pages_for(bytes); pages <= Extents::pages_max) {
		const std::uint32_t first = take_pages(static_cast<std::uint32_t>(pages));
		if (first != none) block = extents_.address(first);
	}
	if (block != nullptr) in_use_ += block_size(bytes);
	else ++counters_.refused;
	return block;
}

std::byte* Arena::take_block(std::uint32_t size_class) {
	if (std::byte* const block = take_listed(size_class)) return block;
	const RunShape& shape = run_shapes[size_class];
	const std::uint32_t run = take_pages(shape.pages);
	if (run == none) return nullptr;
	for (std::uint32_t i = 0; i < shape.pages; ++i) extents_.at(run + i).first = run;
	Page& page = extents_.at(run);
	page.kind = Page::Kind::blocks;
	page.size_class = static_cast<std::uint8_t>(size_class);
	page.free_blocks = shape.all();
	page.free_count = shape.blocks;
	page.list = unlisted;
	classes_[size_class].free_blocks += shape.blocks;
	list(run);
	return take_listed(size_class);
}

// Takes a block of the fullest run that has one; null: no run has a free block.
std::byte* Arena::take_listed(std::uint32_t size_class) {
	Class& all = classes_[size_class];
	for (const std::uint32_t run : all.lists) {
		if (run == none) continue;
		Page& page = extents_.at(run);
		const auto index = static_cast<unsigned>(std::countr_zero(page.free_blocks));
		page.free_blocks &= page.free_blocks - 1;
		--page.free_count;
		--all.free_blocks;
		list(run);
		return block_at(run, index);
	}
	return nullptr;
}

std::uint32_t Arena::take_pages(std::uint32_t pages) {
	std::uint32_t first = extents_.take(pages);
	if (first == none && (grow(pages) || make_room(pages))) first = extents_.take(pages);
	return first;
}

bool Arena::grow(std::uint32_t pages) {
	const std::size_t left = bytes_max_ - std::min(reserved(), bytes_max_);
	const std::size_t usual = std::clamp(reserved(), segment_first, segment_max);
	const std::size_t bytes = std::min(usual + usual / 64, left) / Extents::page_bytes * Extents::page_bytes;
	if (bytes < pages * Extents::page_bytes || extents_.segments() == Extents::segments_max) return false;
	std::byte* const memory = memory_.segment(bytes);
	if (memory == nullptr) {
		bytes_max_ = reserved();  // the next attempt would fail as well
		return false;
	}
	extents_.add(memory, static_cast<std::uint32_t>(bytes / Extents::page_bytes));
	return true;
}

void Arena::flush() {
	for (Kept& kept : kept_)
		while (kept.count > 0) free(kept.blocks[--kept.count]);
}

void Arena::free(std::byte* block) {
	const std::uint32_t first = extents_.at(extents_.number_of(block)).first;
	Page& page = extents_.at(first);
	if (page.kind == Page::Kind::whole) return extents_.give_back(first);
	const RunShape& shape = shape_of(page);
	const auto offset = static_cast<std::uint32_t>(block - extents_.address(first));
	const std::uint64_t bit = std::uint64_t{1} << shape.index_at(offset);
	check(page.kind == Page::Kind::blocks && (page.free_blocks & bit) == 0, "a block is given back once");
	page.free_blocks |= bit;
	++page.free_count;
	++classes_[page.size_class].free_blocks;
	if (page.free_count != shape.blocks) return list(first);
	unlist(first);
	classes_[page.size_class].free_blocks -= shape.blocks;
	extents_.give_back(first);
}

// Puts a run into the list for its number of free blocks, or into none if it has no free block.
void Arena::list(std::uint32_t run) {
	Page& page = extents_.at(run);
	const unsigned times = (page.free_count - 1u) * list_count, blocks = shape_of(page).blocks;
	const auto wanted = static_cast<std::uint8_t>(
		page.free_count == 0 ? unlisted : (times >= blocks) + (times >= 2 * blocks) + (times >= 3 * blocks));
	if (page.list == wanted) return;
	unlist(run);
	page.list = wanted;
	if (wanted == unlisted) return;
	std::uint32_t& front = classes_[page.size_class].lists[wanted];
	page.previous = none;
	page.next = front;
	if (front != none) extents_.at(front).previous = run;
	front = run;
}

void Arena::unlist(std::uint32_t run) {
	Page& page = extents_.at(run);
	if (page.list == unlisted) return;
	if (page.next != none) extents_.at(page.next).previous = page.previous;
	if (page.previous != none) extents_.at(page.previous).next = page.next;
	else classes_[page.size_class].lists[page.list] = page.next;
	page.list = unlisted;
}

const char* Arena::broken() const {
	if (const char* const broken = extents_.broken()) return broken;
	std::size_t in_use = 0;
	std::array<std::size_t, class_count> free{}, listed{};
	for (std::size_t segment = 0; segment < extents_.segments(); ++segment)
		for (std::uint32_t each = Extents::begin_of(segment); each < extents_.end_of(segment);
			each += extents_.at(each).pages) {
			const Page& page = extents_.at(each);
			if (page.kind == Page::Kind::free) continue;
			if (page.kind == Page::Kind::whole) {
				in_use += page.pages * Extents::page_bytes;
				continue;
			}
			const std::size_t free_here = page.free_count;
			if (std::popcount(page.free_blocks) != page.free_count) return "the free blocks are counted";
			if (free_here == shape_of(page).blocks) return "a run has a block in use";
			free[page.size_class] += free_here;
			in_use += (shape_of(page).blocks - free_here) * shape_of(page).block_bytes;
			for (std::uint32_t i = 0; i < page.pages; ++i)
				if (extents_.at(each + i).first != each) return "each page of a run knows the first one";
		}
	for (std::uint32_t i = 0; i < class_count; ++i) {
		for (const std::uint32_t first : classes_[i].lists)
			for (std::uint32_t run = first; run != none; run = extents_.at(run).next)
				listed[i] += extents_.at(run).free_count;
		if (free[i] != classes_[i].free_blocks || listed[i] != free[i]) return "each free block counts, and is listed";
	}
	for (std::uint32_t i = 0; i < kept_.size(); ++i) in_use -= std::size_t{kept_[i].count} * run_shapes[i].block_bytes;
	return in_use == in_use_ ? nullptr : "each block in use counts";
}

}  // namespace verbena::kv

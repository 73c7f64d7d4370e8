// SPDX-License-Identifier: Apache-2.0
#include "nic/heap/page_map.h"

#include <algorithm>
#include <bit>

namespace verbena::heap {
namespace {

// The bits of a word from `from` on, `count` of them, where `from` + `count` is at most 64.
std::uint64_t bits(std::size_t from, std::size_t count) {
	return (count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1) << from;
}

// Calls change(word, mask) for each word that has bits of [page, page + pages).
template <class Change> void for_words(std::size_t page, std::size_t pages, Change change) {
	while (pages > 0) {
		const std::size_t from = page % 64, count = std::min(pages, 64 - from);
		change(page / 64, bits(from, count));
		page += count;
		pages -= count;
	}
}

std::size_t align_up(std::size_t page, std::size_t alignment) { return (page + alignment - 1) & ~(alignment - 1); }

}  // namespace

void Marks::set(std::size_t page, std::size_t pages) {
	for_words(page, pages, [&](std::size_t word, std::uint64_t mask) { words_[word] |= mask; });
}

void Marks::clear(std::size_t page, std::size_t pages) {
	for_words(page, pages, [&](std::size_t word, std::uint64_t mask) { words_[word] &= ~mask; });
}

std::size_t Marks::search(std::size_t page, std::size_t end, std::uint64_t inverted) const {
	while (page < end) {
		const std::uint64_t rest = (words_[page / 64] ^ inverted) >> page % 64;
		if (rest != 0) return std::min(page + static_cast<std::size_t>(std::countr_zero(rest)), end);
		page = (page / 64 + 1) * 64;
	}
	return end;
}

std::size_t Marks::last(std::size_t page) const {
	std::uint64_t word = words_[page / 64] << (63 - page % 64);
	while (word == 0) {
		page = page / 64 * 64 - 1;
		word = words_[page / 64];
	}
	return page - static_cast<std::size_t>(std::countl_zero(word));
}

void PageMap::attach(void* memory, std::size_t pages_max) {
	auto* words = static_cast<std::uint64_t*>(memory);
	for (Marks* marks : {&taken_, &first_, &retired_, &hidden_}) {
		*marks = Marks(words);
		words += words_for(pages_max);
	}
	pages_max_ = pages_max;
	pages_ = lowest_ = high_water_ = 0;
}

void PageMap::extend(std::size_t pages) {
	pages_ += pages;
	for (Marks* marks : {&taken_, &first_, &retired_}) marks->set(pages_ - 1, 1);
}

std::optional<Pages> PageMap::take(std::size_t count, std::size_t alignment) {
	lowest_ = taken_.next_without(lowest_, pages_);
	std::size_t at = align_up(lowest_, alignment);
	while (at <= pages_ && count <= pages_ - at) {
		const std::size_t obstacle = taken_.next(at, at + count);
		if (obstacle == at + count) {
			taken_.set(at, count);
			first_.set(at, 1);
			if (at == lowest_) lowest_ = at + count;
			high_water_ = std::max(high_water_, at + count);
			return Pages{at, count};
		}
		at = align_up(taken_.next_without(obstacle, pages_), alignment);
	}
	return std::nullopt;
}

std::optional<Pages> PageMap::block_at(std::size_t first) const {
	if (first >= high_water_ || !first_[first] || retired_[first]) return std::nullopt;
	const std::size_t next = first_.next(first + 1, high_water_);
	return Pages{first, taken_.next_without(first, next) - first};
}

std::optional<Pages> PageMap::block_with(std::size_t page) const {
	if (page >= high_water_ || !taken_[page]) return std::nullopt;
	return block_at(first_.last(page));
}

void PageMap::give_back(Pages block) {
	hidden_.clear(block.first, block.count);
	first_.clear(block.first, 1);
	for (std::size_t page = block.first; page < block.end();) {
		const std::size_t kept = retired_.next(page, block.end());
		taken_.clear(page, kept - page);
		page = retired_.next_without(kept, block.end());
		// The mark ends the block below.
		if (kept < page) first_.set(kept, 1);
	}
	lowest_ = std::min(lowest_, block.first);
}

void PageMap::shorten(Pages block, std::size_t count) {
	hidden_.clear(block.first + count, block.count - count);
	taken_.clear(block.first + count, block.count - count);
	lowest_ = std::min(lowest_, block.first + count);
}

std::optional<Pages> PageMap::next_run(std::size_t page) const {
	while (page < high_water_) {
		const std::size_t begin = taken_.next(page, high_water_);
		if (begin == high_water_) break;
		std::size_t end = taken_.next_without(begin, high_water_);
		end = retired_.next(begin, end);
		end = hidden_.next(begin, end);
		if (end > begin) return Pages{begin, end - begin};
		page = begin + 1;
	}
	return std::nullopt;
}

}  // namespace verbena::heap

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/kv/lmdb_file.h"

namespace verbena::kv::lmdb {

std::optional<Fault> Walk::run(const Tree& tree, PageNumber header, const Take& take) {
	if (tree.root == no_page) {
		if (tree.depth != 0 || tree.entries != 0 || tree.branch_pages != 0 || tree.leaf_pages != 0 ||
			tree.overflow_pages != 0)
			fail(header, "it counts the entries of an empty tree");
		return fault_;
	}
	if (tree.depth == 0 || tree.depth > depth_max) {
		fail(header, "its tree has an impossible depth");
		return fault_;
	}
	depth_ = tree.depth;
	path_.reserve(depth_);
	enter(tree.root, header, {}, {}, take);
	while (!path_.empty() && (!fault_ || !options_.stop_at_fault)) {
		Level& level = path_.back();
		const std::size_t index = level.next++;
		if (index >= level.page.size()) {
			path_.pop_back();
			continue;
		}
		const auto low = index == 0 ? level.low : level.page.node(index).key;
		const auto high = index + 1 == level.page.size() ? level.high : level.page.node(index + 1).key;
		enter(level.page.node(index).child, level.number, low, high, take);
	}
	path_.clear();
	if (found_.branch_pages != tree.branch_pages || found_.leaf_pages != tree.leaf_pages ||
		found_.overflow_pages != tree.overflow_pages || found_.entries != tree.entries)
		fail(header, "it counts other pages or entries than its tree has");
	return fault_;
}

// Reads a page. A branch is added to the path, a leaf is passed on.
void Walk::enter(PageNumber number, PageNumber parent, std::optional<std::string_view> low,
	std::optional<std::string_view> high, const Take& take) {
	if (number < first_page || number > options_.last_page)
		return fail(parent, "it refers to page " + std::to_string(number) + ", which does not exist");
	if (!seen_.add(number))
		return fail(parent, "it refers to page " + std::to_string(number) + ", which is in use elsewhere");
	Level level{.bytes = std::vector<std::byte>(options_.page_bytes), .number = number, .low = low, .high = high};
	if (!options_.file.read(number * options_.page_bytes, level.bytes)) return fail(number, "it cannot be read");
	const bool is_leaf = path_.size() + 1 == depth_;
	auto page = Page::read(level.bytes, number, is_leaf ? Kind::leaf : Kind::branch);
	if (!page) return fail(number, std::move(page.error()));
	level.page = *page;
	if (std::string what = fault_of_keys(level); !what.empty()) return fail(number, std::move(what));
	if (!is_leaf) {
		++found_.branch_pages;
		path_.push_back(std::move(level));
		return;
	}
	++found_.leaf_pages;
	found_.entries += page->size();
	if (std::string what = take_runs(*page); !what.empty()) {
		fail(number, std::move(what));
		if (options_.stop_at_fault) return;
	}
	take(number, *page);
}

bool Walk::is_less(std::string_view left, std::string_view right) const {
	if (!options_.is_free_list) return left < right;
	std::uint64_t a, b;
	std::memcpy(&a, left.data(), sizeof a);
	std::memcpy(&b, right.data(), sizeof b);
	return a < b;
}

std::string Walk::fault_of_keys(const Level& level) const {
	const Page& page = level.page;
	// LMDB ends the program at a branch with one child, but for the list of free pages.
	if (!page.is_leaf() && !options_.is_free_list && page.size() < 2) return "it is a branch page with one child";
	std::optional<std::string_view> before = level.low;
	bool equal_allowed = true;
	// The first key of a branch stands for all that are less; LMDB does not use it.
	for (std::size_t i = page.is_leaf() ? 0 : 1; i < page.size(); ++i) {
		const std::string_view key = page.node(i).key;
		if (options_.is_free_list && key.size() != sizeof(std::uint64_t)) return "a key in it has the wrong length";
		if (before && (equal_allowed ? is_less(key, *before) : !is_less(*before, key)))
			return "its keys are not in order, or belong to another page";
		before = key;
		equal_allowed = false;
	}
	if (before && level.high && !is_less(*before, *level.high)) return "a key in it belongs to another page";
	return {};
}

// Adds the runs of a leaf's data to the pages that were seen.
std::string Walk::take_runs(const Page& leaf) {
	for (std::size_t i = 0; i < leaf.size(); ++i) {
		const Node node = leaf.node(i);
		if (!node.in_run) continue;
		const PageNumber first = node.run();
		const std::string of_run = "it refers to a run of pages at page " + std::to_string(first);
		std::array<std::byte, sizeof(PageHeader)> bytes;
		if (first < first_page || first > options_.last_page) return of_run + ", which does not exist";
		if (!options_.file.read(first * options_.page_bytes, bytes)) return of_run + ", which cannot be read";
		const PageHeader header = header_of(bytes);
		if (header.number != first || header.kind != std::to_underlying(Kind::overflow))
			return of_run + ", which is another page";
		const std::uint64_t pages = header.run_pages();
		if (pages < run_pages_for(node.bytes, options_.page_bytes) || pages > options_.last_page + 1 - first ||
			first + pages > options_.file.pages(options_.page_bytes))
			return of_run + ", whose length is wrong";
		for (PageNumber each = first; each < first + pages; ++each)
			if (!seen_.add(each)) return of_run + ", a part of which is in use elsewhere";
		found_.overflow_pages += pages;
	}
	return {};
}

void Walk::fail(PageNumber page, std::string what) {
	if (!fault_) fault_ = Fault{page, std::move(what)};
}

}  // namespace verbena::kv::lmdb

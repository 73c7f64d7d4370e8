// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/lmdb_survivors.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace verbena::kv::lmdb {
namespace {

std::optional<Ledger> read_ledger(const Record& record) {
	Ledger ledger;
	if (!record.is_note || record.key != Ledger::note || record.value.size() != sizeof ledger) return {};
	std::memcpy(&ledger, record.value.data(), sizeof ledger);
	return ledger;
}

// Fills `room` with a page, and returns it as a leaf, if it is one. Its keys may be damaged, which
// the checksums of the records show. With `mended`, its number and kind may be damaged too.
std::optional<Page> read_leaf(const File& file, PageNumber number, std::vector<std::byte>& room, bool mended) {
	if (!file.read(number * room.size(), room)) return {};
	if (mended) {
		PageHeader header = header_of(room);
		header.number = number;
		header.kind = std::to_underlying(Kind::leaf);
		std::memcpy(room.data(), &header, sizeof header);
	}
	const auto page = Page::read(room, number, Kind::leaf);
	return page ? std::optional(*page) : std::nullopt;
}

// A record whose checksum is right. It refers to the page or to `room`.
struct RightRecord {
	std::string_view content;
	Record record;
};
std::optional<RightRecord> read_right(const File& file, const Node& node, std::size_t page_bytes, std::string& room) {
	const auto content = file.data_of(node, page_bytes, room);
	if (!content || node.key == format_name) return {};
	const auto record = read_record(node.key, *content);
	if (!record || record->value.size() > value_max) return {};
	return RightRecord{*content, *record};
}

// Passes each node of each leaf.
template <class Take> void for_each_node(const File& file, const Survivors& survivors, const Take& take) {
	std::vector<std::byte> room(survivors.page_bytes);
	for (const PageNumber number : survivors.leaves) {
		const auto leaf = read_leaf(file, number, room, survivors.mended);
		for (std::size_t i = 0; leaf && i < leaf->size(); ++i) take(leaf->node(i));
	}
}

void count_records(const File& file, Survivors& survivors) {
	std::string room;
	for_each_node(file, survivors, [&](const Node& node) {
		const auto right = read_right(file, node, survivors.page_bytes, room);
		if (node.key == format_name) {
			survivors.format = node.data;
		} else if (!right) {
			survivors.damaged.push_back(damaged_name(node.key) + " is damaged");
		} else if (const auto ledger = read_ledger(right->record)) {
			survivors.ledger = ledger;
		} else {
			survivors.found.add(right->record.checksum);
			survivors.found.last_version = std::max(survivors.found.last_version, right->record.stamp.version);
		}
	});
}

// The leaves that the tree leads to, behind damaged pages none.
Survivors of_tree(const File& file, const File::Headers& headers, const Meta& meta) {
	Survivors survivors{.page_bytes = headers.page_bytes};
	const std::uint64_t pages = file.pages(headers.page_bytes);
	Pages seen(pages);
	Walk walk({.file = file, .page_bytes = headers.page_bytes, .last_page = pages - 1, .stop_at_fault = false}, seen);
	walk.run(meta.table, 0, [&](PageNumber number, const Page&) { survivors.leaves.push_back(number); });
	count_records(file, survivors);
	return survivors;
}

struct Leaf {
	std::string first, last;  // the names of undamaged records
	PageNumber number = 0;
};

// Adds the pages of long values, whose checksums are right, to `of_runs`.
Leaf read_range(const File& file, const Page& leaf, PageNumber number, std::size_t page_bytes, Pages& of_runs) {
	Leaf range{.number = number};
	std::string room;
	for (std::size_t i = 0; i < leaf.size(); ++i) {
		const Node node = leaf.node(i);
		if (!read_right(file, node, page_bytes, room)) continue;
		if (range.first.empty() || node.key < range.first) range.first = node.key;
		if (node.key > range.last) range.last = node.key;
		for (std::uint64_t page = 0; node.in_run && page < run_pages_for(node.bytes, page_bytes); ++page)
			of_runs.add(node.run() + page);
	}
	return range;
}

// Removes leaves whose keys lie between those of another leaf. In one tree there are none, so one
// of the two is old. Returns how many it has removed.
std::uint64_t drop_contradictions(std::vector<Leaf>& leaves) {
	std::ranges::sort(leaves, {}, &Leaf::first);
	std::vector<bool> is_wrong(leaves.size());
	for (std::size_t i = 1, widest = 0; i < leaves.size(); ++i) {
		const bool has_records = !leaves[i].first.empty();
		if (has_records && leaves[i].first <= leaves[widest].last) is_wrong[i] = is_wrong[widest] = true;
		if (leaves[i].last > leaves[widest].last) widest = i;
	}
	std::vector<Leaf> kept;
	for (std::size_t i = 0; i < leaves.size(); ++i)
		if (!is_wrong[i]) kept.push_back(std::move(leaves[i]));
	leaves.swap(kept);
	return kept.size() - leaves.size();
}

// All leaves among the pages that are not free. Nothing if the list of free pages is damaged.
std::optional<Survivors> of_pages_in_use(
	const File& file, const File::Headers& headers, const Meta& meta, bool mended) {
	const std::size_t page_bytes = headers.page_bytes;
	if (meta.last_page >= file.pages(page_bytes) + file.bytes() / sizeof(PageNumber)) return {};
	Pages not_of_table(meta.last_page + 1);
	Meta of_this_size = meta;
	of_this_size.free.unused = static_cast<std::uint32_t>(page_bytes);
	const auto add = [&](PageNumber each) { return not_of_table.add(each); };
	if (read_free_list(file, of_this_size, 0, not_of_table, add)) return {};

	Survivors survivors{.page_bytes = page_bytes, .mended = mended};
	Pages unknown(meta.last_page + 1), of_runs(meta.last_page + 1);
	std::vector<Leaf> leaves;
	std::vector<std::byte> room(page_bytes);
	for (PageNumber number = first_page; number <= meta.last_page; ++number) {
		if (not_of_table.has(number)) continue;
		if (const auto leaf = read_leaf(file, number, room, mended))
			leaves.push_back(read_range(file, *leaf, number, page_bytes, of_runs));
		else if (!file.read(number * page_bytes, room) || !Page::read(room, number, Kind::branch)) unknown.add(number);
	}
	// A part of a value may look like a leaf.
	std::erase_if(leaves, [&](const Leaf& leaf) { return of_runs.has(leaf.number); });
	for (PageNumber number = first_page; number <= meta.last_page; ++number)
		if (unknown.has(number) && !of_runs.has(number)) ++survivors.unreadable_pages;
	survivors.unreadable_pages += drop_contradictions(leaves);
	for (const Leaf& each : leaves) survivors.leaves.push_back(each.number);
	count_records(file, survivors);
	return survivors;
}

// The greatest version in a ledger of any transaction of which there still are pages.
std::uint64_t newest_version(const File& file, std::size_t page_bytes) {
	std::uint64_t newest = 0;
	std::vector<std::byte> room(page_bytes);
	const std::string name = name_of_note(Ledger::note);
	for (PageNumber number = first_page; number < file.pages(page_bytes); ++number) {
		const auto leaf = read_leaf(file, number, room, false);
		for (std::size_t i = 0; leaf && i < leaf->size(); ++i) {
			const Node node = leaf->node(i);
			const auto record = node.key == name && !node.in_run ? read_record(node.key, node.data) : std::nullopt;
			if (const auto ledger = record ? read_ledger(*record) : std::nullopt)
				newest = std::max(newest, ledger->last_version);
		}
	}
	return newest;
}

// When the numbers of the transactions are damaged, only the ledgers say which header is newer.
std::expected<Survivors, std::string> of_either_header(const File& file, const File::Headers& headers) {
	std::optional<Survivors> best;
	for (const Meta& meta : headers.metas) {
		Survivors each = of_tree(file, headers, meta);
		if (each.are_all() && (!best || each.ledger->last_version >= best->ledger->last_version))
			best = std::move(each);
	}
	if (!best || newest_version(file, headers.page_bytes) > best->ledger->last_version)
		return std::unexpected("its headers do not show which transaction was the last one");
	return *std::move(best);
}

std::expected<Survivors, std::string> find(const File& file, const std::optional<Fault>& fault) {
	const auto headers = file.headers();
	if (!headers || file.pages(headers->page_bytes) <= first_page) return std::unexpected("it has no readable header");
	const auto fits = [&](const Meta& meta) { return number_fits(file, meta, headers->page_bytes); };
	if (!headers->are_in_turn() || !std::ranges::all_of(headers->metas, fits)) return of_either_header(file, *headers);
	const Meta& meta = headers->newer();
	Survivors tree = of_tree(file, *headers, meta);
	if (!fault) return tree;
	auto in_use = of_pages_in_use(file, *headers, meta, false);
	if (in_use && in_use->are_all()) return *std::move(in_use);
	// A leaf with another number may be an older one. The ledger proves that it is not, unless it
	// lies in such a leaf itself.
	if (in_use && in_use->ledger) {
		auto mended = of_pages_in_use(file, *headers, meta, true);
		if (mended && mended->are_all() && mended->ledger == in_use->ledger) return *std::move(mended);
	}
	// A damaged header may lead to the tree of the transaction before, which is whole too.
	if (tree.are_all() && newest_version(file, headers->page_bytes) <= tree.ledger->last_version) return tree;
	if (in_use) return *std::move(in_use);
	return std::unexpected("the list of free pages is damaged too, so old records cannot be recognised");
}

}  // namespace

std::expected<Survivors, std::string> find_survivors(const File& file) {
	auto fault = check(file);
	auto survivors = find(file, fault);
	if (survivors) survivors->fault = std::move(fault);
	return survivors;
}

void for_each_record(const File& file, const Survivors& survivors, const TakeRecord& take) {
	std::string room;
	for_each_node(file, survivors, [&](const Node& node) {
		const auto right = read_right(file, node, survivors.page_bytes, room);
		if (right && !read_ledger(right->record)) take(node.key, right->content, right->record);
	});
}

}  // namespace verbena::kv::lmdb

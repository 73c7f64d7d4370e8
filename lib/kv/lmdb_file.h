// SPDX-License-Identifier: Apache-2.0
// File: LMDB's data file, read without LMDB. Nothing in it is believed before it is checked.
// check(): the structure of the whole file. LMDB follows page numbers and offsets without a check
// of its own, so a file is checked before LMDB opens it.
//
// Threads: one at a time.
// Invariants: nothing writes to the file meanwhile; its folder is locked. The memory that is needed
//   is one bit for each page, and the pages of one path from the root to a leaf.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "lib/kv/lmdb_format.h"

namespace verbena::kv::lmdb {

// The first thing that is wrong in a file.
struct Fault {
	PageNumber page = 0;
	std::string what;

	std::string text() const { return "page " + std::to_string(page) + ": " + what; }
};

class File {
public:
	// A missing file is an empty one. The error is the system's.
	static std::expected<File, std::string> open(const std::string& path);
	~File();
	File(File&& other) noexcept;
	File& operator=(File&&) = delete;

	// LMDB begins a new database in an empty file.
	bool is_empty() const { return bytes_ == 0; }
	// The number of whole pages of this size in the file.
	std::uint64_t pages(std::size_t page_bytes) const { return bytes_ / page_bytes; }
	std::uint64_t bytes() const { return bytes_; }

	// Returns false if the file ends before that, or the disk fails.
	bool read(std::uint64_t offset, std::span<std::byte> into) const;

	// The content of both headers, whether it is right or not. Nothing if no page size fits.
	struct Headers {
		std::array<PageHeader, 2> pages;
		std::array<Meta, 2> metas;
		std::size_t page_bytes = 0;

		// LMDB numbers its transactions one by one, and writes the even ones to page 0.
		bool are_in_turn() const;
		const Meta& newer() const { return metas[metas[0].transaction < metas[1].transaction ? 1 : 0]; }
	};
	std::optional<Headers> headers() const;

	// The data of a leaf's node. `room` keeps them if they come from a run, whose header is not
	// checked. Nothing if the file has no such pages.
	std::optional<std::string_view> data_of(const Node& node, std::size_t page_bytes, std::string& room) const;

private:
	explicit File(int file) : file_(file) {}

	int file_ = -1;
	std::uint64_t bytes_ = 0;
};

// A set of page numbers below a limit.
class Pages {
public:
	explicit Pages(std::uint64_t limit) : has_(limit) {}
	// Returns false if the number is at or above the limit, or in the set already.
	bool add(PageNumber number) {
		if (number >= has_.size() || has_[number]) return false;
		return has_[number] = true;
	}
	bool has(PageNumber number) const { return number < has_.size() && has_[number]; }

private:
	std::vector<bool> has_;
};

// Walks a tree from its root, and passes each leaf that is right to `take`, in the order of keys.
class Walk {
public:
	using Take = std::function<void(PageNumber number, const Page& leaf)>;
	struct Options {
		const File& file;
		std::size_t page_bytes;
		PageNumber last_page;       // the greatest one that the database has
		bool is_free_list = false;  // its keys are numbers
		bool stop_at_fault = true;  // otherwise go on behind a damaged page
	};
	// Adds every page of the tree to `seen`, which is a fault if it is there already.
	Walk(const Options& options, Pages& seen) : options_(options), seen_(seen) {}
	// Returns the first fault. `header` is the page that has `tree`.
	std::optional<Fault> run(const Tree& tree, PageNumber header, const Take& take);

private:
	// A page on the path from the root, and the keys between which all of its keys must lie.
	struct Level {
		std::vector<std::byte> bytes;
		Page page;
		PageNumber number = 0;
		std::size_t next = 0;  // the child to visit
		std::optional<std::string_view> low, high;
	};
	bool is_less(std::string_view left, std::string_view right) const;
	void enter(PageNumber number, PageNumber parent, std::optional<std::string_view> low,
		std::optional<std::string_view> high, const Take& take);
	std::string fault_of_keys(const Level& level) const;
	std::string take_runs(const Page& leaf);
	void fail(PageNumber page, std::string what);

	Options options_;
	Pages& seen_;
	Tree found_;  // the counts of the walk
	std::uint16_t depth_ = 0;
	std::vector<Level> path_;
	std::optional<Fault> fault_;
};

// Passes every page number of the free list to `take`, which returns false if it is wrong. Adds the
// pages of the list itself to `seen`.
std::optional<Fault> read_free_list(
	const File& file, const Meta& meta, PageNumber header, Pages& seen, const std::function<bool(PageNumber)>& take);

// A transaction lists the pages that it has freed under its own number; each but the first has
// freed some. Returns false if the last number in the list is not that of the header, which has
// changed then. If the list is damaged, the number may be right.
bool number_fits(const File& file, const Meta& meta, std::size_t page_bytes);

// Returns the first fault of the file's structure, as LMDB will see it. An empty file has none.
std::optional<Fault> check(const File& file);

}  // namespace verbena::kv::lmdb

// SPDX-License-Identifier: Apache-2.0
// The bytes of LMDB's data file (LMDB 0.9, data version 1, 64-bit little-endian) as checked views.
//
// The file is a row of pages of one size. Pages 0 and 1 are headers, which transactions write in
// turn. A header names the roots of two trees: the table, and the list of free pages. A branch page
// has keys and the numbers of its children, a leaf page has keys and data. Data that are too long
// for a leaf lie in a run of overflow pages, whose first page alone begins with a page header.
//
// Threads: any; pure functions.
// Errors: the bytes come from a disk. A Page that was read has only nodes within the page.
// Source: lmdb.h and mdb.c of LMDB 0.9.24 (mdb_page, mdb_node, MDB_db, MDB_meta).
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>

namespace verbena::kv::lmdb {

using PageNumber = std::uint64_t;

constexpr std::uint32_t magic = 0xbeefc0de, data_version = 1;
constexpr PageNumber no_page = ~PageNumber{0};  // the root of an empty tree
constexpr PageNumber first_page = 2;            // behind the headers
constexpr std::size_t page_bytes_min = 256, page_bytes_max = 32768;
constexpr std::size_t depth_max = 32;           // LMDB's CURSOR_STACK
constexpr std::size_t key_bytes_max = 511;
// The flags of tables with whole numbers as keys, and of a file without a folder (mdb_copy -n).
constexpr std::uint16_t integer_keys = 0x08, no_folder = 0x4000;

enum class Kind : std::uint16_t { branch = 0x01, leaf = 0x02, overflow = 0x04, header = 0x08 };

struct PageHeader {
	PageNumber number = 0;
	std::uint16_t unused = 0;
	std::uint16_t kind = 0;
	// The end of the offsets of nodes, and the beginning of the nodes. In the first page of a run
	// these four bytes are the number of its pages.
	std::uint16_t lower = 0, upper = 0;

	std::uint32_t run_pages() const { return lower | std::uint32_t{upper} << 16; }
};
static_assert(sizeof(PageHeader) == 16);

struct Tree {
	std::uint32_t unused = 0;  // in the free list: the bytes of a page
	std::uint16_t flags = 0;
	std::uint16_t depth = 0;   // 1: the root is a leaf
	std::uint64_t branch_pages = 0, leaf_pages = 0, overflow_pages = 0, entries = 0;
	PageNumber root = no_page;
};
static_assert(sizeof(Tree) == 48);

// The content of a header page, behind its PageHeader.
struct Meta {
	std::uint32_t magic = 0, version = 0;
	std::uint64_t address = 0;
	std::uint64_t map_bytes = 0;
	Tree free, table;
	PageNumber last_page = 0;
	std::uint64_t transaction = 0;

	std::size_t page_bytes() const { return free.unused; }
};
static_assert(sizeof(Meta) == 136);

struct Node {
	std::string_view key;
	PageNumber child = 0;   // in a branch
	bool in_run = false;    // in a leaf: `data` is the number of a run's first page
	std::string_view data;  // in a leaf
	std::size_t bytes = 0;  // in a leaf: the length of the data, also in a run

	PageNumber run() const;
};

// A branch or leaf page whose layout is right.
//
// Lifetime: refers to the bytes that it was read from.
class Page {
public:
	// `number` and `kind` are those that the page must have. The error is a phrase about the page.
	static std::expected<Page, std::string> read(std::span<const std::byte> bytes, PageNumber number, Kind kind);

	Page() = default;
	std::size_t size() const { return size_; }
	Node node(std::size_t index) const;  // index < size()
	bool is_leaf() const { return kind_ == Kind::leaf; }

private:
	std::span<const std::byte> bytes_;
	std::size_t size_ = 0;
	Kind kind_ = Kind::leaf;
};

PageHeader header_of(std::span<const std::byte> page);
// The pages of a run for this much data.
std::uint64_t run_pages_for(std::size_t data_bytes, std::size_t page_bytes);
bool is_page_size(std::size_t bytes);

}  // namespace verbena::kv::lmdb

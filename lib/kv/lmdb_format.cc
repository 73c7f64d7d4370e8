// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/lmdb_format.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

namespace verbena::kv::lmdb {
namespace {

static_assert(std::endian::native == std::endian::little, "LMDB's file has the byte order of its machine");

struct NodeHeader {
	// In a leaf: the length of the data, and flags. In a branch: the 48 bits of the child's number.
	std::uint16_t low = 0, high = 0, flags = 0;
	std::uint16_t key_bytes = 0;
};
static_assert(sizeof(NodeHeader) == 8);
constexpr std::uint16_t data_in_run = 0x01;

std::uint16_t offset_at(std::span<const std::byte> page, std::size_t index) {
	std::uint16_t offset;
	std::memcpy(&offset, page.data() + sizeof(PageHeader) + index * sizeof offset, sizeof offset);
	return offset;
}

NodeHeader node_header_at(std::span<const std::byte> page, std::size_t offset) {
	NodeHeader header;
	std::memcpy(&header, page.data() + offset, sizeof header);
	return header;
}

std::size_t data_bytes(const NodeHeader& header) { return header.low | std::size_t{header.high} << 16; }

// The bytes that a node takes in its page.
std::size_t node_bytes(const NodeHeader& header, Kind kind) {
	std::size_t bytes = sizeof header + header.key_bytes;
	if (kind == Kind::leaf) bytes += (header.flags & data_in_run) != 0 ? sizeof(PageNumber) : data_bytes(header);
	return bytes + bytes % 2;
}

std::string name_of(Kind kind) { return kind == Kind::branch ? "branch" : kind == Kind::leaf ? "leaf" : "overflow"; }

}  // namespace

PageNumber Node::run() const {
	PageNumber number = 0;
	std::memcpy(&number, data.data(), std::min(sizeof number, data.size()));
	return number;
}

PageHeader header_of(std::span<const std::byte> page) {
	PageHeader header;
	std::memcpy(&header, page.data(), sizeof header);
	return header;
}

std::uint64_t run_pages_for(std::size_t data_bytes, std::size_t page_bytes) {
	return (sizeof(PageHeader) - 1 + data_bytes) / page_bytes + 1;
}

bool is_page_size(std::size_t bytes) {
	return bytes >= page_bytes_min && bytes <= page_bytes_max && std::has_single_bit(bytes);
}

std::expected<Page, std::string> Page::read(std::span<const std::byte> bytes, PageNumber number, Kind kind) {
	const PageHeader header = header_of(bytes);
	if (header.number != number) return std::unexpected("it has the number of page " + std::to_string(header.number));
	if (header.kind != std::to_underlying(kind)) return std::unexpected("it is no " + name_of(kind) + " page");
	if (header.lower < sizeof header || header.lower % 2 != 0 || header.lower > header.upper ||
		header.upper > bytes.size())
		return std::unexpected("the bounds of its free space are wrong");
	Page page;
	page.bytes_ = bytes;
	page.kind_ = kind;
	page.size_ = (header.lower - sizeof header) / sizeof header.lower;
	if (page.size_ == 0) return std::unexpected("it is empty");

	// LMDB packs the nodes: in the order of their offsets they fill the page behind `upper`.
	std::vector<std::uint16_t> offsets(page.size_);
	for (std::size_t i = 0; i < page.size_; ++i) offsets[i] = offset_at(bytes, i);
	std::ranges::sort(offsets);
	std::size_t end = header.upper;
	for (const std::uint16_t offset : offsets) {
		if (offset != end || offset + sizeof(NodeHeader) > bytes.size())
			return std::unexpected("the places of its nodes are wrong");
		const NodeHeader node = node_header_at(bytes, offset);
		if (node.key_bytes > key_bytes_max) return std::unexpected("a key in it is too long");
		if (kind == Kind::leaf && node.key_bytes == 0) return std::unexpected("a key in it is empty");
		if (kind == Kind::leaf && (node.flags & ~data_in_run) != 0)
			return std::unexpected("a node in it is of an unknown kind");
		end += node_bytes(node, kind);
		if (end > bytes.size()) return std::unexpected("a node in it is too long");
	}
	if (end != bytes.size()) return std::unexpected("the places of its nodes are wrong");
	return page;
}

Node Page::node(std::size_t index) const {
	const std::size_t offset = offset_at(bytes_, index);
	const NodeHeader header = node_header_at(bytes_, offset);
	const char* const at = reinterpret_cast<const char*>(bytes_.data()) + offset + sizeof header;
	Node node{.key = {at, header.key_bytes}};
	if (kind_ == Kind::branch) {
		node.child = header.low | PageNumber{header.high} << 16 | PageNumber{header.flags} << 32;
		return node;
	}
	node.in_run = (header.flags & data_in_run) != 0;
	node.bytes = data_bytes(header);
	node.data = {at + header.key_bytes, node.in_run ? sizeof(PageNumber) : node.bytes};
	return node;
}

}  // namespace verbena::kv::lmdb

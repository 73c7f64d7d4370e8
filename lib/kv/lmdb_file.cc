// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/lmdb_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace verbena::kv::lmdb {
namespace {

// The pages of the database may end behind the file, if the last ones are free. Each of these is in
// the free list, where it takes 8 bytes.
std::uint64_t pages_max(const File& file, std::size_t page_bytes) {
	return file.pages(page_bytes) + file.bytes() / sizeof(PageNumber);
}

std::string fault_of_header(const PageHeader& header, const Meta& meta, PageNumber number, std::size_t page_bytes) {
	if (header.number != number) return "it has the number of page " + std::to_string(header.number);
	if (header.kind != std::to_underlying(Kind::header)) return "it is no header page";
	if (meta.magic != magic) return "it does not begin as a file of LMDB";
	if (meta.version != data_version) return "it has an unknown version of LMDB's format";
	if (meta.page_bytes() != page_bytes) return "it has another size of pages";
	return {};
}

}  // namespace

std::expected<File, std::string> File::open(const std::string& path) {
	File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
	struct stat facts{};
	if (file.file_ >= 0 && fstat(file.file_, &facts) == 0) file.bytes_ = static_cast<std::uint64_t>(facts.st_size);
	else if (errno != ENOENT) return std::unexpected(path + ": " + std::strerror(errno));
	return file;
}

File::~File() {
	if (file_ >= 0) ::close(file_);
}

File::File(File&& other) noexcept : file_(std::exchange(other.file_, -1)), bytes_(other.bytes_) {}

bool File::read(std::uint64_t offset, std::span<std::byte> into) const {
	if (offset > bytes_ || into.size() > bytes_ - offset) return false;
	while (!into.empty()) {
		const ssize_t got = pread(file_, into.data(), into.size(), static_cast<off_t>(offset));
		if (got < 0 && errno == EINTR) continue;
		if (got <= 0) return false;
		into = into.subspan(static_cast<std::size_t>(got));
		offset += static_cast<std::uint64_t>(got);
	}
	return true;
}

bool File::Headers::are_in_turn() const {
	const std::uint64_t even = metas[0].transaction, odd = metas[1].transaction;
	if (even == 0 && odd == 0) return true;  // no transaction yet
	return even % 2 == 0 && (odd == even + 1 || odd + 1 == even);
}

std::optional<File::Headers> File::headers() const {
	Headers headers;
	const auto read_at = [&](std::size_t index, std::uint64_t offset) {
		std::array<std::byte, sizeof(PageHeader) + sizeof(Meta)> bytes;
		if (!read(offset, bytes)) return false;
		headers.pages[index] = header_of(bytes);
		std::memcpy(&headers.metas[index], bytes.data() + sizeof(PageHeader), sizeof(Meta));
		return true;
	};
	if (!read_at(0, 0)) return {};
	const std::size_t said = headers.metas[0].page_bytes();
	for (std::size_t size = page_bytes_min; size <= page_bytes_max; size *= 2) {
		if (!read_at(1, size) || headers.metas[1].page_bytes() != size || headers.metas[1].magic != magic) continue;
		headers.page_bytes = size;
		return headers;
	}
	if (!is_page_size(said) || !read_at(1, said)) return {};
	headers.page_bytes = said;
	return headers;
}

std::optional<std::string_view> File::data_of(const Node& node, std::size_t page_bytes, std::string& room) const {
	if (!node.in_run) return node.data;
	const PageNumber first = node.run();
	if (first >= pages(page_bytes) || run_pages_for(node.bytes, page_bytes) > pages(page_bytes) - first) return {};
	room.resize(node.bytes);
	const std::uint64_t offset = first * page_bytes + sizeof(PageHeader);
	if (!read(offset, std::as_writable_bytes(std::span(room)))) return {};
	return room;
}

// Passes the page numbers of one record of the free list. Its key is a transaction. Its data are
// the count of the pages that this has freed, and their numbers in falling order; there may be
// room for more.
static std::string read_free_record(
	const File& file, const Meta& meta, const Node& node, const std::function<bool(PageNumber)>& take) {
	constexpr std::size_t at_once = 512;  // numbers, because the record may be long
	const std::string damaged = "it has a damaged list of free pages";
	const std::uint64_t begin = node.in_run ? node.run() * meta.page_bytes() + sizeof(PageHeader) : 0;
	const auto read = [&](std::uint64_t offset, std::span<PageNumber> into) {
		if (node.in_run) return file.read(begin + offset, std::as_writable_bytes(into));
		std::memcpy(into.data(), node.data.data() + offset, into.size_bytes());
		return true;
	};
	std::uint64_t transaction = 0, count = 0;
	std::memcpy(&transaction, node.key.data(), sizeof transaction);
	if (transaction == 0 || transaction > meta.transaction) return "it has free pages of no transaction";
	if (node.bytes < sizeof count || !read(0, {&count, 1})) return damaged;
	if (count > node.bytes / sizeof count - 1) return damaged;
	std::vector<PageNumber> numbers(std::min<std::uint64_t>(at_once, count));
	PageNumber before = meta.last_page + 1;
	for (std::uint64_t done = 0; done < count; done += numbers.size()) {
		numbers.resize(std::min<std::uint64_t>(numbers.size(), count - done));
		if (!read((1 + done) * sizeof count, numbers)) return "it has a list of free pages that cannot be read";
		for (const PageNumber free : numbers) {
			if (free < first_page || free >= before) return damaged;
			if (!take(free)) return "it says that page " + std::to_string(free) + " is free, which is in use";
			before = free;
		}
	}
	return {};
}

std::optional<Fault> read_free_list(
	const File& file, const Meta& meta, PageNumber header, Pages& seen, const std::function<bool(PageNumber)>& take) {
	std::optional<Fault> of_record;
	Walk walk({.file = file, .page_bytes = meta.page_bytes(), .last_page = meta.last_page, .is_free_list = true}, seen);
	const auto of_tree = walk.run(meta.free, header, [&](PageNumber number, const Page& leaf) {
		for (std::size_t i = 0; i < leaf.size() && !of_record; ++i)
			if (std::string what = read_free_record(file, meta, leaf.node(i), take); !what.empty())
				of_record = Fault{number, std::move(what)};
	});
	return of_tree ? of_tree : of_record;
}

bool number_fits(const File& file, const Meta& meta, std::size_t page_bytes) {
	if (meta.transaction < 2) return true;
	std::uint64_t last = 0;
	const std::uint64_t pages = file.pages(page_bytes);
	Pages seen(pages);
	Walk walk({.file = file, .page_bytes = page_bytes, .last_page = pages - 1, .is_free_list = true}, seen);
	const auto fault = walk.run(meta.free, 0,
		[&](PageNumber, const Page& leaf) { std::memcpy(&last, leaf.node(leaf.size() - 1).key.data(), sizeof last); });
	return fault || last == meta.transaction;
}

std::optional<Fault> check(const File& file) {
	if (file.is_empty()) return {};
	const auto headers = file.headers();
	if (!headers) return Fault{0, "the file has no header of LMDB"};
	const std::size_t page_bytes = headers->page_bytes;
	for (PageNumber i = 0; i < headers->metas.size(); ++i)
		if (std::string what = fault_of_header(headers->pages[i], headers->metas[i], i, page_bytes); !what.empty())
			return Fault{i, std::move(what)};
	const Meta& meta = headers->newer();
	const PageNumber number = meta.transaction % 2;
	if (!headers->are_in_turn())
		return Fault{number, "the numbers of the last two transactions do not follow each other"};
	for (PageNumber i = 0; i < headers->metas.size(); ++i)
		if (!number_fits(file, headers->metas[i], page_bytes))
			return Fault{i, "it has another number of its transaction than its list of free pages"};
	if ((meta.free.flags & ~no_folder) != integer_keys || meta.table.flags != 0)
		return Fault{number, "its flags are not those of a journal"};
	if (meta.last_page + 1 < first_page || meta.last_page >= pages_max(file, page_bytes))
		return Fault{number, "it has a last page that the file cannot have"};
	if (meta.map_bytes / page_bytes <= meta.last_page)
		return Fault{number, "its last page lies behind its greatest size"};
	Pages seen(meta.last_page + 1);
	Walk walk({.file = file, .page_bytes = page_bytes, .last_page = meta.last_page}, seen);
	if (auto fault = walk.run(meta.table, number, [](PageNumber, const Page&) {})) return fault;
	// A page that is free must not be in a tree, nor free twice.
	Pages free(meta.last_page + 1);
	auto fault =
		read_free_list(file, meta, number, seen, [&](PageNumber each) { return !seen.has(each) && free.add(each); });
	if (fault) return fault;
	for (PageNumber each = first_page; each <= meta.last_page; ++each)
		if (free.has(each) && seen.has(each)) return Fault{each, "it is in use and in the list of free pages"};
	return {};
}

}  // namespace verbena::kv::lmdb

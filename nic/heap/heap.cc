// SPDX-License-Identifier: Apache-2.0
#include "nic/heap/heap.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/check.h"
#include "base/kept_errno.h"
#include "base/log.h"
#include "nic/heap/state.h"
#include "nic/heap/symbols.h"

namespace verbena::heap {

constinit State state;
constinit std::atomic<Mode> mode = Mode::unread;

namespace {

constexpr std::size_t range_pages_max = 16 << 20;
constexpr std::size_t range_pages_min = 16 << 10;
constexpr std::size_t alignment_max = std::size_t{1} << 30;
// A segment has as many pages as all before it, within these limits, or what its first block needs.
constexpr std::size_t segment_pages_min = 1 << 10;
constexpr std::size_t segment_pages_max = 64 << 10;

// The range counts against RLIMIT_AS, so it takes at most an eighth of what that allows.
std::size_t range_pages() {
	rlimit limit;
	if (getrlimit(RLIMIT_AS, &limit) != 0) return 0;
	std::size_t pages = range_pages_max;
	while (limit.rlim_cur != RLIM_INFINITY && pages * page_bytes > limit.rlim_cur / 8) pages /= 2;
	return pages;
}

// Addresses from a multiple of alignment_max on, without access.
std::byte* reserve(std::size_t bytes) {
	const std::size_t whole = bytes + alignment_max;
	void* const found = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (found == MAP_FAILED) return nullptr;
	auto* const low = static_cast<std::byte*>(found);
	const std::size_t before = -reinterpret_cast<std::uintptr_t>(low) & (alignment_max - 1);
	std::byte* const begin = low + before;
	if (before > 0) munmap(low, before);
	munmap(begin + bytes, alignment_max - before);
	return begin;
}

// Gives the heap its range and bitmaps. False: this process cannot have a heap.
bool make(State& heap) {
	if (sysconf(_SC_PAGESIZE) != page_bytes) return false;
	for (std::size_t pages = range_pages(); pages >= range_pages_min; pages /= 2) {
		void* const bitmaps = mmap(nullptr, PageMap::bytes_for(pages), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (bitmaps == MAP_FAILED) continue;
		std::byte* const begin = reserve(pages * page_bytes);
		if (begin == nullptr) {
			munmap(bitmaps, PageMap::bytes_for(pages));
			continue;
		}
		heap.map.attach(bitmaps, pages);
		heap.begin = begin;
		heap.owner = getpid();
		detail::range.begin.store(reinterpret_cast<std::uintptr_t>(begin), std::memory_order_relaxed);
		detail::range.bytes.store(pages * page_bytes, std::memory_order_release);
		log::debug("VERBENA_HEAP: the heap has %zu MiB of addresses at %p", pages * page_bytes >> 20,
			static_cast<void*>(begin));
		return true;
	}
	log::debug("VERBENA_HEAP: no addresses (%s), so there is no heap", std::strerror(errno));
	return false;
}

// Adds a segment that has room for such a block.
bool grow(State& heap, std::size_t count, std::size_t alignment) {
	if (heap.segments.full()) return false;
	const std::size_t first = heap.map.size(), left = heap.map.size_max() - first;
	// One more, because the last page of a segment is not used.
	const std::size_t needed = (-first & (alignment - 1)) + count + 1;
	if (needed > left) return false;
	const std::size_t pages = std::min(std::max(needed, std::clamp(first, segment_pages_min, segment_pages_max)), left);
	const auto file = create_file(pages * page_bytes);
	if (!file) {
		log::debug("VERBENA_HEAP: no memfd of %zu KiB (%s)", pages * 4, std::strerror(errno));
		return false;
	}
	if (mmap(heap.at(first), pages * page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
			file->descriptor, 0) == MAP_FAILED) {
		log::debug("VERBENA_HEAP: a file of %zu KiB cannot be mapped (%s)", pages * 4, std::strerror(errno));
		close_file(*file);
		return false;
	}
	heap.segments.add({first, pages}, *file);
	heap.map.extend(pages);
	return true;
}

// Without VERBENA_HEAP. A tool that watches the program's allocations would not see the heap's. A
// program with more rights than its user shares no memory.
bool on_by_default() {
	if (getauxval(AT_SECURE) != 0) return false;
	if (!allocations_are_watched()) return true;
	log::debug("a sanitizer or valgrind watches the allocations, so there is no heap unless VERBENA_HEAP=1");
	return false;
}

Mode read_mode() {
	const KeptErrno kept;
	const char* const value = secure_getenv("VERBENA_HEAP");
	const bool given = value != nullptr && *value != '\0';
	Mode wanted = (given ? std::strcmp(value, "1") == 0 : on_by_default()) ? Mode::on : Mode::off;
	if (wanted == Mode::on && !frees_are_ours()) {
		log::debug("VERBENA_HEAP: another allocator's free() comes before the NIC's, so there is no heap");
		wanted = Mode::off;
	}
	Mode expected = Mode::unread;
	if (!mode.compare_exchange_strong(expected, wanted, std::memory_order_relaxed)) return expected;
	if (given && std::strcmp(value, "0") != 0 && std::strcmp(value, "1") != 0)
		log::error("VERBENA_HEAP=%s is neither 0 nor 1; the heap stays off", value);
	return wanted;
}

// Pages that are no longer used, and what must be known to make them fresh again without the lock.
struct Discarded {
	Discarded(const State& heap, Pages pages)
		: begin(heap.at(pages.first)),
		  bytes(pages.count * page_bytes),
		  segment(heap.segments.at(pages.first)),
		  offset(segment.offset_of(pages.first)),
		  hidden(heap.map.hidden().next(pages.first, pages.end()) != pages.end()) {}

	void make_fresh() const {
		// The program may have made the pages read-only.
		mprotect(begin, bytes, PROT_READ | PROT_WRITE);
		if (hidden) ask_kernel(begin, bytes, MADV_DOFORK);
		if (!punch(segment.file, offset, bytes)) ask_kernel(begin, bytes, MADV_REMOVE);
	}

	std::byte* const begin;
	const std::size_t bytes;
	const PlacedPages segment;
	const std::uint64_t offset;
	const bool hidden;
};

// Discards a block of which pages have moved. These pages cannot come back to the first file, where
// a peer that made them move may still write: they become inaccessible, and are never used again.
void discard_moved(State& heap, Pages block) {
	while (block.count > 0) {
		const PlacedPages* const entry = heap.moved.find(block);
		const std::size_t first = entry != nullptr ? entry->pages.first : block.end();
		if (first > block.first) Discarded(heap, {block.first, first - block.first}).make_fresh();
		if (entry == nullptr) return;
		const Pages gone = entry->pages;
		close_range(heap.at(gone.first), gone.count * page_bytes);
		heap.map.retire(gone);
		heap.moved.remove(gone);
		block = {gone.end(), block.end() - gone.end()};
	}
}

}  // namespace

bool enabled() {
	Mode now = mode.load(std::memory_order_relaxed);
	if (now == Mode::unread) [[unlikely]]
		now = read_mode();
	return now == Mode::on;
}

std::optional<Located> State::locate(const void* address, std::size_t bytes) const {
	if (!is_mine() || copied || bytes > map.size() * page_bytes) return std::nullopt;
	const std::size_t within = reinterpret_cast<std::uintptr_t>(address) % page_bytes;
	const Pages pages{page_of(address), (within + std::max<std::size_t>(bytes, 1) + page_bytes - 1) / page_bytes};
	const auto block = map.block_with(pages.first);
	if (!block || pages.end() > block->end()) return std::nullopt;
	return Located{pages, within};
}

void* allocate(std::size_t alignment, std::size_t bytes) {
	if (!enabled() || alignment > alignment_max || bytes > range_pages_max * page_bytes) return nullptr;
	const KeptErrno kept;
	watch_forks();
	State& heap = state;
	const std::lock_guard lock(heap.mutex);
	if (!heap.made() && !make(heap)) {
		mode.store(Mode::off, std::memory_order_relaxed);
		return nullptr;
	}
	if (heap.copied || !heap.is_mine()) return nullptr;
	const std::size_t count = (bytes + page_bytes - 1) / page_bytes;
	auto block = heap.map.take(count, alignment / page_bytes);
	if (!block && grow(heap, count, alignment / page_bytes)) block = heap.map.take(count, alignment / page_bytes);
	if (!block) return nullptr;
	return heap.at(block->first);
}

void release(void* address) {
	const KeptErrno kept;
	State& heap = state;
	std::unique_lock lock(heap.mutex);
	if (!heap.is_mine()) return;
	const auto block = reinterpret_cast<std::uintptr_t>(address) % page_bytes == 0
		? heap.map.block_at(heap.page_of(address))
		: std::nullopt;
	check(block.has_value(), "free() or realloc() of an address where no block of the heap begins");
	if (heap.copied) {
		close_range(address, block->count * page_bytes);
	} else if (heap.moved.find(*block) != nullptr) {
		discard_moved(heap, *block);
	} else {
		// The block stays taken meanwhile, so that other threads need not wait for the kernel.
		const Discarded discarded(heap, *block);
		lock.unlock();
		discarded.make_fresh();
		lock.lock();
		if (heap.moved.find(*block) != nullptr) discard_moved(heap, *block);
	}
	heap.map.give_back(*block);
}

std::size_t usable_bytes(const void* address) {
	State& heap = state;
	const std::lock_guard lock(heap.mutex);
	const auto block = heap.map.block_at(heap.page_of(address));
	return block ? block->count * page_bytes : 0;
}

void shrink(void* address, std::size_t bytes) {
	const KeptErrno kept;
	State& heap = state;
	const std::lock_guard lock(heap.mutex);
	const auto block = heap.map.block_at(heap.page_of(address));
	const std::size_t count = std::max<std::size_t>((bytes + page_bytes - 1) / page_bytes, 1);
	if (!block || count >= block->count || heap.copied || !heap.is_mine() || heap.moved.find(*block)) return;
	Discarded(heap, {block->first + count, block->count - count}).make_fresh();
	heap.map.shorten(*block, count);
}

std::optional<Place> find(const void* address, std::size_t bytes) {
	State& heap = state;
	if (!contains(address) || !enabled()) return std::nullopt;
	const std::lock_guard lock(heap.mutex);
	const auto located = heap.locate(address, bytes);
	if (!located) return std::nullopt;
	const Pages pages = located->pages;
	const PlacedPages* const moved = heap.moved.find(pages);
	if (moved != nullptr && (pages.first < moved->pages.first || pages.end() > moved->pages.end())) return std::nullopt;
	const PlacedPages& placed = moved != nullptr ? *moved : heap.segments.at(pages.first);
	return Place{placed.file.descriptor, placed.file.inode, placed.offset_of(pages.first) + located->within};
}

}  // namespace verbena::heap

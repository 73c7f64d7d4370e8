// SPDX-License-Identifier: Apache-2.0
// The heap and fork(2): the child gets private copies of the blocks, as of any other memory.
//
// The handler before the fork copies the memory, under the heap's lock, and the child puts the copy
// in the place of the blocks. So the child sees each byte as the forking thread sees it at its call
// of fork(), whatever the parent does afterwards. Another thread of the parent that stores at that
// very moment may store before or after the copy.
//
// Beyond copied_bytes_max, the child maps the file itself, copy-on-write: there it sees what the
// parent stores after the fork, in pages that the child has not written.
#include <cstring>
#include <new>
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "base/kept_errno.h"
#include "nic/heap/heap.h"
#include "nic/heap/state.h"

#include <pthread.h>

namespace verbena::heap {
namespace {

constexpr std::size_t copied_bytes_max = 64 << 20;

// Laid out as the heap is, without memory for the pages that are not copied.
struct Snapshot {
	std::byte* begin = nullptr;
	std::size_t pages = 0;  // those below are copied, the others are not

	std::size_t bytes() const { return pages * page_bytes; }
};
constinit Snapshot snapshot;  // from before the fork until after it, under the heap's lock
constinit thread_local bool held = false;

// Copies a part of the heap that lies in one file, up to a number of bytes. Returns the first page
// that was not copied.
std::size_t copy_part(
	const State& heap, Pages part, const File& file, std::uint64_t offset, std::byte* to, std::size_t& budget) {
	const std::uint64_t end = offset + part.count * page_bytes;
	const auto page_at = [&](std::uint64_t at) { return part.first + (at - offset) / page_bytes; };
	if (!is_open(file)) {
		// The program has closed the file. Pages without access stay zero.
		for (std::size_t page = part.first; page < part.end(); ++page, budget -= page_bytes) {
			if (budget < page_bytes) return page;
			const iovec local{to + page * page_bytes, page_bytes}, remote{heap.at(page), page_bytes};
			process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
		}
		return part.end();
	}
	for (std::uint64_t at = offset; at < end;) {
		const auto data = next_data(file, at, end);
		if (!data) break;
		const std::size_t bytes = data->end - data->begin;
		if (bytes > budget) return page_at(data->begin);
		if (!read_all(file, data->begin, to + page_at(data->begin) * page_bytes, bytes)) return page_at(data->begin);
		budget -= bytes;
		at = data->end;
	}
	return part.end();
}

void take_snapshot(State& heap) {
	const std::size_t pages = heap.map.high_water();
	void* const at =
		mmap(nullptr, pages * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED) return;
	snapshot = {static_cast<std::byte*>(at), pages};
	std::size_t budget = copied_bytes_max;
	for (auto run = heap.map.next_run(0); run; run = heap.map.next_run(run->end()))
		heap.for_files(*run, [&](Pages part, const File& file, std::uint64_t offset) {
			if (part.first >= snapshot.pages) return;
			const std::size_t end = copy_part(heap, part, file, offset, snapshot.begin, budget);
			if (end < part.end()) snapshot.pages = end;
		});
	munmap(snapshot.begin + snapshot.bytes(), (pages - snapshot.pages) * page_bytes);
}

void before_fork() {
	State& heap = state;
	// A signal handler that forks may have interrupted the holder, which then never unlocks.
	for (int patience = 0; patience < 10'000 && !(held = heap.mutex.try_lock()); ++patience) sched_yield();
	if (held && heap.made() && !heap.copied && heap.is_mine()) take_snapshot(heap);
}

void after_fork_in_parent() {
	if (!held) return;
	if (snapshot.begin != nullptr && snapshot.pages > 0) munmap(snapshot.begin, snapshot.bytes());
	snapshot = {};
	state.mutex.unlock();
}

// Maps copy-on-write what was not copied. If that fails, the child has no access: it must not store
// in its parent's memory.
void map_rest(State& heap, Pages rest) {
	heap.for_files(rest, [&](Pages part, const File& file, std::uint64_t offset) {
		const std::size_t bytes = part.count * page_bytes;
		constexpr int flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
		if (!is_open(file) ||
			mmap(heap.at(part.first), bytes, PROT_READ | PROT_WRITE, flags, file.descriptor,
				static_cast<off_t>(offset)) == MAP_FAILED)
			if (!close_range(heap.at(part.first), bytes)) munmap(heap.at(part.first), bytes);
	});
}

// Puts the copy in the place of the blocks.
bool put_snapshot(State& heap) {
	const std::size_t bytes = snapshot.bytes();
	if (bytes == 0) return false;
	if (mremap(snapshot.begin, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, heap.begin) != MAP_FAILED) return true;
	if (mmap(heap.begin, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
			0) == MAP_FAILED)
		return false;
	for (auto run = heap.map.next_run(0); run && run->first < snapshot.pages; run = heap.map.next_run(run->end()))
		std::memcpy(heap.at(run->first), snapshot.begin + run->first * page_bytes,
			(std::min(run->end(), snapshot.pages) - run->first) * page_bytes);
	munmap(snapshot.begin, bytes);
	return true;
}

void after_fork_in_child() {
	const KeptErrno kept;
	State& heap = state;
	new (&heap.mutex) std::mutex;  // the parent's thread holds the old one
	if (!heap.made() || heap.copied) return;
	const std::size_t copied = held && put_snapshot(heap) ? snapshot.pages : 0;
	const std::size_t used = heap.map.high_water(), pages = heap.map.size();
	if (copied < used) map_rest(heap, {copied, used - copied});
	if (used < pages) close_range(heap.at(used), (pages - used) * page_bytes);
	// The program has asked that the child does not get these.
	const Marks& hidden = heap.map.hidden();
	for (std::size_t page = hidden.next(0, pages); page < pages;) {
		const std::size_t end = hidden.next_without(page, pages);
		mprotect(heap.at(page), (end - page) * page_bytes, PROT_NONE);
		page = hidden.next(end, pages);
	}
	heap.moved.close_all();
	for (const PlacedPages& segment : heap.segments.all()) close_file(segment.file);
	snapshot = {};
	heap.copied = true;
	mode.store(Mode::off, std::memory_order_relaxed);
}

}  // namespace

void watch_forks() {
	static constinit std::atomic<bool> watched = false;
	if (watched.load(std::memory_order_relaxed) || watched.exchange(true, std::memory_order_relaxed)) return;
	if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0)
		mode.store(Mode::off, std::memory_order_relaxed);
}

}  // namespace verbena::heap

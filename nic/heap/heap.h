// SPDX-License-Identifier: Apache-2.0
// Memory that a program has allocated and that peers on this host can map: page-aligned blocks in
// sealed memfds, served by posix_memalign() and its relatives (interpose.cc), unless
// VERBENA_HEAP=0.
//
// docs/decisions/0035 has the reasons. The address range is reserved once, so one comparison says
// whether a pointer is the heap's.
//
// Threads: any, at the same time. The heap's lock is the innermost one: no other lock of the NIC is
//   taken under it.
// Owns: the file, the address range, and the files of pages that have moved. All of it lives as
//   long as the process.
// Lifetime: the heap comes into being with the first block. A fork's child keeps private copies of
//   the blocks and gets no new ones.
// Errors: a null pointer, nothing or false; the caller then does what it does without a heap.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace verbena::heap {

// Where memory of the heap lies.
struct Place {
	int descriptor;  // this process's descriptor of the file; open as long as the process lives
	std::uint64_t file;  // inode number
	std::uint64_t offset;  // the first byte's, in the file

	friend bool operator==(const Place&, const Place&) = default;
};

// True if this process serves memory from the heap, or would if it were asked for some.
bool enabled();

// Where [address, address + bytes) lies. Nothing if it is not wholly in one live block, or spans
// two files after a move.
std::optional<Place> find(const void* address, std::size_t bytes);

// Gives the pages that contain the range a new file with the same contents at the same address: a
// peer that has mapped the old file reaches only pages that this process no longer uses. Threads
// that write to the pages meanwhile fault and wait (wait_for_move). The range lies in one live
// block. False: there is no memory, no descriptor, or no entry left; nothing has changed.
bool move(const void* address, std::size_t bytes);

// For the handler of SIGSEGV: true if the fault at this address may have been caused by move(), so
// that the access can be tried again. Waits for the end of a move that is under way.
// Async-signal-safe.
bool wait_for_move(const void* address);

// Registers the heap's fork handlers, once. Those of an engine, whose lock is taken before the
// heap's, must be registered later, because the C library calls them in reverse order.
void watch_forks();

namespace detail {
struct Range {
	std::atomic<std::uintptr_t> begin{0};
	std::atomic<std::size_t> bytes{0};  // 0 until there is a heap
};
inline constinit Range range;
}  // namespace detail

// True if the address is in the heap's range.
inline bool contains(const void* address) {
	const std::size_t bytes = detail::range.bytes.load(std::memory_order_acquire);
	return reinterpret_cast<std::uintptr_t>(address) - detail::range.begin.load(std::memory_order_relaxed) < bytes;
}

// The following are what the interposed functions of the C library do for heap memory. Only
// advise() changes errno.

// A block of at least this size, both not below page_bytes; `alignment` is a power of two. The
// block's pages are fresh. Null if the heap cannot serve it.
void* allocate(std::size_t alignment, std::size_t bytes);
// Stops the process if no block begins at this address.
void release(void* address);
std::size_t usable_bytes(const void* address);
// Makes a block smaller without moving it; pages that are not used any more become free.
void shrink(void* address, std::size_t bytes);
// madvise(2) for a range that begins in the heap: 0, or -1 and errno.
int advise(void* address, std::size_t bytes, int advice);

}  // namespace verbena::heap

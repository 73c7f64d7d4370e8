// SPDX-License-Identifier: Apache-2.0
// Copies and atomics on application memory, which may have been unmapped. The NIC touches
// application memory in no other way.
//
// A program may unmap or protect registered memory at any time; the result is an access error, not
// a crash. Each routine is assembly inside a known range of program counters. The SIGSEGV/SIGBUS
// handler (nic/engine/fault_handler.h) passes a fault to redirect_if_guarded(), and the routine
// returns false. Without that handler a fault ends the process as usual.
//
// Threads: any; also signal handlers. The routines neither use the stack nor call anything.
// Errors: false means that a page was missing or forbade the access.
// Invariants: a thread or process that reads the destination while guarded_copy() writes it may
//   rely on these (docs/decisions/0007):
//  - Stores ascend and are ordinary (no non-temporal store, no string instruction), and the last
//    store includes the last byte. A reader that sees the last byte sees all bytes; programs poll
//    on the last byte of an RDMA WRITE.
//  - Each naturally aligned piece of 1, 2, 4 or 8 bytes of the destination changes in one store,
//    whatever the alignment of the whole, so no reader sees half of a new word. The same holds for
//    loads from the source only if source and destination are both 8-aligned.
//  - Bytes next to the destination are not touched.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace verbena::memory {

namespace detail {
using CopyFunction = bool(void* to, const void* from, std::size_t n);
extern CopyFunction* guarded_copy_chosen;  // the variant for this CPU, set before main()
}  // namespace detail

// The routines behind the functions below. The last argument of the atomics gets the old value.
struct Routines {
	bool (*copy)(void* to, const void* from, std::size_t n);
	bool (*compare_swap)(std::uint64_t* at, std::uint64_t compare, std::uint64_t swap, std::uint64_t* original);
	bool (*fetch_add)(std::uint64_t* at, std::uint64_t add, std::uint64_t* original);
};
// Replaces the routines and returns the earlier ones, which a decorator calls (nic/adversary). To
// call before another thread can be in one.
Routines replace_routines(const Routines&);

// Copies n bytes; source and destination must not overlap. Returns false if a page was missing or
// forbade the access; bytes copied before that stay.
[[nodiscard]] inline bool guarded_copy(void* to, const void* from, std::size_t n) {
	return detail::guarded_copy_chosen(to, from, n);
}

// Both functions are atomic with respect to the program's own atomic instructions, because they use
// LOCK instructions. They store the old value in `original`. If the page is missing or forbids the
// access, they return false and leave `original` unchanged. `at` must be 8-aligned; callers refuse
// a misaligned remote atomic as an invalid request (IBA 9.4.5). A compare that fails needs write
// permission too.
[[nodiscard]] bool guarded_compare_swap(
	std::uint64_t* at, std::uint64_t compare, std::uint64_t swap, std::uint64_t& original);
[[nodiscard]] bool guarded_fetch_add(std::uint64_t* at, std::uint64_t add, std::uint64_t& original);

// For the fault handler. Returns true if the fault is in a guarded routine; the routine then
// returns false when the signal handler returns.
bool redirect_if_guarded(ucontext_t* context);

}  // namespace verbena::memory

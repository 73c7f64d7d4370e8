// Copies and atomics on memory that may not be there: the only way the NIC touches application memory.
//
// A program may unmap or protect registered memory at any time, and the answer is an access error, not a crash. Each
// routine is assembly inside a known range of program counters; the SIGSEGV/SIGBUS handler (engine/fault_handler.h)
// hands a fault in that range to redirect_if_guarded(), and the routine returns false. Without the handler a fault
// kills, as everywhere else.
//
// What a reader in another thread or process may rely on while guarded_copy() writes:
//
//  - stores ascend, are ordinary (none non-temporal, no string instruction), and the last byte is in the last store:
//  who sees the
//    last byte sees all (programs poll on the last byte of an RDMA WRITE);
//  - each naturally aligned piece of 1, 2, 4 or 8 bytes of the destination first changes in one store, whatever the
//  alignment of
//    the whole: no such word is ever seen half new. Loads from the source give no such promise unless both ends are
//    8-aligned.
//  - Bytes next to the destination are not touched. Source and destination must not overlap.
//
// All functions may be called from any thread and from signal handlers; none uses the stack or calls anything.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace verbena::memory {

namespace detail {
using CopyFunction = bool(void* to, const void* from, std::size_t n);
extern CopyFunction* guarded_copy_chosen;  // for this CPU, before main()
}  // namespace detail

// False: a page was missing or forbade the access; what was copied before stays.
[[nodiscard]] inline bool guarded_copy(void* to, const void* from, std::size_t n) {
	return detail::guarded_copy_chosen(to, from, n);
}

// LOCK instructions, hence atomic with the program's own. `at` must be 8-aligned (the caller has checked: a misaligned
// remote atomic is an invalid request). `original` is untouched when false. A compare that fails still needs write
// permission.
[[nodiscard]] bool guarded_compare_swap(
	std::uint64_t* at, std::uint64_t compare, std::uint64_t swap, std::uint64_t& original);
[[nodiscard]] bool guarded_fetch_add(std::uint64_t* at, std::uint64_t add, std::uint64_t& original);

// One 8-byte load.
[[nodiscard]] bool guarded_read8(const std::uint64_t* at, std::uint64_t& value);

// For the fault handler: true if the fault was ours, and returning from the signal then makes the routine return false.
bool redirect_if_guarded(ucontext_t* context);

}  // namespace verbena::memory

// SPDX-License-Identifier: Apache-2.0
// A mark on mapped memory. Memory that is mapped anew at the same address lacks it, also if the
// calls that did so are inside of the C library.
//
// The mark is the memory policy "on the node of the processor" (MPOL_LOCAL, mbind(2)), which does
// what a mapping without a policy does. The kernel keeps it with the mapping and not with the
// address. Like every policy it divides a mapping that is marked in part, for which mremap(2) then
// fails, as it does after ibv_fork_init(3).
//
// Threads: any.
#pragma once

#include <cstdint>

namespace verbena::rules {

// Marks the pages of [begin, begin + length). False: the memory has a policy of the program's own,
// or the kernel or a filter of system calls refuses.
bool mark_mapping(std::uint64_t begin, std::uint64_t length);

// Whether the byte is mapped, and has neither the mark nor a policy of the program's own.
bool lacks_mark(std::uint64_t address);

}  // namespace verbena::rules

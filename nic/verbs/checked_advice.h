// SPDX-License-Identifier: Apache-2.0
// The checker's view of madvise(2), by which a program gives registered pages back to the kernel.
//
// Threads: any.
#pragma once

namespace verbena::verbs {

// Sees the calls of madvise() of all libraries that are loaded now. Cheap if there are no new ones.
void see_advice() noexcept;

}  // namespace verbena::verbs

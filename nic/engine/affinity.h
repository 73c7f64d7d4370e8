// SPDX-License-Identifier: Apache-2.0
// The processors on which the progress thread may run, and moving a peer's progress thread to the
// processor of the process that wakes it (docs/decisions/0008).
//
// A thread is moved only if its processors were not chosen by the user: it may run on all
// processors, or only on the one to which a peer moved it last.
//
// Threads: any.
// Errors: none; a thread that cannot be moved stays where it is.
#pragma once

#include <sys/types.h>

#include "nic/engine/progress_page.h"

namespace verbena::engine {

// The only processor on which `thread` of this process may run; -1 if it may run on several.
int only_processor(pid_t thread);

// Moves the progress thread of the process `peer`, which has this page, to the processor `cpu`.
// Returns false if it was not moved.
bool move_progress_thread(pid_t peer, const ProgressPage& page, int cpu);

}  // namespace verbena::engine

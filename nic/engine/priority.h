// SPDX-License-Identifier: Apache-2.0
// The processor time of the program's threads, and the scheduling policy of the progress thread.
//
// A program under SCHED_FIFO or SCHED_RR that spins on memory never lets an ordinary thread run on
// its processor. The progress thread must then come before it, or the bytes never arrive.
//
// Threads: any.
// Errors: a refused change is ignored. A process that could give its own thread such a policy may
//   give it to this thread, too.
#pragma once

#include <sys/types.h>

#include "base/time.h"

namespace verbena::engine {

// Lets the calling thread run before `other`, if that is a real-time thread of this process. 0 is
// no thread.
void run_before(pid_t other);

// The time that a thread of this process has run, in ns; 0 if it has ended.
Nanoseconds processor_time(pid_t thread);

}  // namespace verbena::engine

// SPDX-License-Identifier: Apache-2.0
// One SIGSEGV and SIGBUS handler for the process. It turns faults inside the guarded routines
// (nic/memory/guarded_copy.h) into their failure, and gives every other fault to the program's own
// handler, as if the NIC were not there:
//
//  - a handler runs with the kernel's own siginfo and context, under the mask, stack and flags that
//    the program asked for;
//  - SIG_IGN ignores a signal that another process sent, and a real fault kills;
//  - SIG_DFL kills with the original siginfo, and the core dump shows the faulting instruction.
//
// The interposers (nic/verbs/signals.cc) route the program's sigaction() calls and signal masks
// through here, so that our handler stays first and those two signals are never blocked: a fault
// under a blocked signal kills. A process that may get traps by mistake guards SIGTRAP too.
//
// Threads: any; program_sigaction() and strip() are async-signal-safe as well.
// Lifetime: process-wide; installed once, at the first ibv_open_device(), and never removed.
#pragma once

#include <csignal>
#include <ucontext.h>

namespace verbena::engine {

// Sets a function that is asked first at a fault for lack of access: it returns true if the access
// shall be tried again. It must be async-signal-safe.
void retry_faults_if(bool (*may_retry)(const void* address));

// Guards SIGTRAP from now on, and sets a function that is asked first: it returns true for a trap
// that came by mistake. It must be async-signal-safe. Also unblocks the signal in the calling
// thread. Call after install_fault_handler().
void ignore_traps_if(bool (*is_mistake)(const siginfo_t& info, const ucontext_t& context));

// Whether the signal goes through our handler: SIGSEGV, SIGBUS and perhaps SIGTRAP.
bool is_guarded(int signal_number);

// Idempotent. The action that was installed before becomes the program's. Also unblocks both
// signals in the calling thread.
void install_fault_handler();

// sigaction(2) as the program means it, with the same errors. Once our handler is installed, the
// program's actions for guarded signals are recorded and called by ours.
int program_sigaction(int signal_number, const struct sigaction* action, struct sigaction* old);

// Takes the guarded signals out of a set that is about to be blocked.
void strip(sigset_t* set);

}  // namespace verbena::engine

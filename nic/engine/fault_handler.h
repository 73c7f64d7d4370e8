// One SIGSEGV and SIGBUS handler for the process: it turns faults inside the guarded routines (memory/guarded_copy.h)
// into their failure, and hands every other fault to what the program installed, as if we were not there:
//
//  - a handler runs with the kernel's own siginfo and context, under the mask, stack and flags that the program asked
//  for;
//  - SIG_IGN ignores what another process sent, and a real fault kills;
//  - SIG_DFL kills with the original siginfo and the core dump at the faulting instruction.
//
// Process-wide and installed once, at the first ibv_open_device. The interposers (verbs/signals.cc) send the program's
// own sigaction() and masks through here, so that ours stays first and those two signals are never blocked: a fault
// under a blocked signal kills. Any thread; program_sigaction() and strip() also from signal handlers.
#pragma once

#include <csignal>

namespace verbena::engine {

// Idempotent. Whatever was installed before becomes the program's action. Also unblocks both signals in the calling
// thread.
void install_fault_handler();

// sigaction() as the program means it: like the real one, errors too, but SEGV's and BUS's actions are recorded and
// chained to once the handler is installed.
int program_sigaction(int signal_number, const struct sigaction* action, struct sigaction* old);

// Takes SEGV and BUS out of a set that is about to be blocked.
void strip(sigset_t* set);

}  // namespace verbena::engine

// SPDX-License-Identifier: Apache-2.0
// The accesses of the process's threads to a word of memory, counted by the debug registers of the
// processor (perf_event_open(2), PERF_TYPE_BREAKPOINT). An access that is counted takes some
// microseconds.
//
// Threads: one.
// Errors: a thread that cannot be watched, because the kernel refuses it or its debug registers are
// in use, has no accesses.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace verbena::rules {

// Whether a SIGTRAP comes from an access that was watched, and not from the program: on some
// virtual machines the processor's exception arrives without its cause now and then (DR6 is 0), and
// Linux then takes it for the instruction INT1 and sends the signal. The program must not see it.
// Safe in a signal handler.
bool is_watch_without_cause(const siginfo_t& info, const ucontext_t& context);

class Watchpoint {
public:
	static constexpr std::size_t threads_max = 64;

	Watchpoint() = default;
	Watchpoint(const Watchpoint&) = delete;
	Watchpoint& operator=(const Watchpoint&) = delete;
	~Watchpoint();

	// Counts the accesses of all other threads to this word of 1, 2, 4 or 8 bytes; its address is a
	// multiple of that. Returns whether there is such a thread that can be watched; if not, errno
	// says why the last one cannot.
	bool watch(std::uint64_t address, unsigned bytes);

	struct Accesses {
		std::uint64_t count = 0;
		// The address behind an instruction that has accessed the word; 0: unknown.
		std::uintptr_t next = 0;
	};
	// Those of the thread and the word with the most.
	Accesses most() const;

private:
	struct Event {
		int fd;
		void* ring;  // for samples, or null
	};
	std::vector<Event> events_;
};

}  // namespace verbena::rules

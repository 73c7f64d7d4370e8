// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/priority.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace verbena::engine {

void run_before(pid_t other) {
	// For the kernel, 0 is the calling thread. The number of a thread that has ended may have
	// become that of another process's.
	if (other == 0 || syscall(SYS_tgkill, getpid(), other, 0) != 0) return;
	const int policy = sched_getscheduler(other);
	const int real = policy & ~SCHED_RESET_ON_FORK;
	sched_param wanted{}, own{};
	if (policy < 0 || (real != SCHED_FIFO && real != SCHED_RR) || sched_getparam(other, &wanted) != 0) return;
	wanted.sched_priority = std::min(wanted.sched_priority + 1, sched_get_priority_max(real));
	if (sched_getscheduler(0) == policy && sched_getparam(0, &own) == 0 && own.sched_priority >= wanted.sched_priority)
		return;
	sched_setscheduler(0, policy, &wanted);
}

Nanoseconds processor_time(pid_t thread) {
	// The clock of a thread, as pthread_getcpuclockid() numbers it: CPUCLOCK_SCHED of the kernel's
	// include/linux/posix-timers.h, for one thread.
	const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) | 6);
	timespec time{};
	if (clock_gettime(clock, &time) != 0) return 0;
	return static_cast<Nanoseconds>(time.tv_sec) * 1'000'000'000 + static_cast<Nanoseconds>(time.tv_nsec);
}

}  // namespace verbena::engine

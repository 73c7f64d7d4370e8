// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/affinity.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbena::engine {

namespace {

bool read_affinity(pid_t thread, cpu_set_t& allowed) {
	CPU_ZERO(&allowed);
	return sched_getaffinity(thread, sizeof allowed, &allowed) == 0;
}

// Fewer than all processors: by taskset, numactl, a batch system, or the container's cpuset. These
// cannot be distinguished, and each is a decision that a peer must not change.
bool chosen_by_user(const cpu_set_t& allowed, int moved_to) {
	const int count = CPU_COUNT(&allowed);
	if (count == 1 && moved_to >= 0 && CPU_ISSET(static_cast<unsigned>(moved_to), &allowed)) return false;
	static const long online = sysconf(_SC_NPROCESSORS_ONLN);
	return count < online;
}

}  // namespace

int only_processor(pid_t thread) {
	cpu_set_t allowed;
	if (!read_affinity(thread, allowed) || CPU_COUNT(&allowed) != 1) return -1;
	int cpu = 0;
	while (!CPU_ISSET(static_cast<unsigned>(cpu), &allowed)) ++cpu;
	return cpu;
}

bool move_progress_thread(pid_t peer, const ProgressPage& page, int cpu) {
	const pid_t thread = page.progress_tid.load(std::memory_order_relaxed);
	if (cpu < 0 || cpu >= CPU_SETSIZE || thread <= 0 || page.pid != peer) return false;
	// The page may have false values, for example the number of another process's thread.
	if (syscall(SYS_tgkill, peer, thread, 0) != 0) return false;
	cpu_set_t allowed;
	if (!read_affinity(thread, allowed) || chosen_by_user(allowed, page.moved_to.load(std::memory_order_relaxed)))
		return false;
	CPU_ZERO(&allowed);
	CPU_SET(static_cast<unsigned>(cpu), &allowed);
	return sched_setaffinity(thread, sizeof allowed, &allowed) == 0;
}

}  // namespace verbena::engine

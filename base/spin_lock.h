// SPDX-License-Identifier: Apache-2.0
// A lock for a few instructions, between threads of one process. Waiters spin, and then yield,
// because the owner may not be running if there are more threads than cores.
//
// Threads: thread-safe. Not recursive, not fair.
#pragma once

#include <atomic>
#include <cstdint>
#include <sched.h>

namespace verbena {

inline void cpu_relax() {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

class SpinLock {
public:
	bool try_lock() { return !word_.load(std::memory_order_relaxed) && !word_.exchange(1, std::memory_order_acquire); }
	void lock() {
		for (unsigned spins = 0; !try_lock(); ++spins) {
			if (spins < 200) cpu_relax();
			else sched_yield();
		}
	}
	void unlock() { word_.store(0, std::memory_order_release); }

private:
	std::atomic<std::uint32_t> word_{0};
};

}  // namespace verbena

// SPDX-License-Identifier: Apache-2.0
// The engine's lock. Data verbs only try it; control verbs take it as a priority-inheriting futex,
// so that a preempted holder runs in the waiter's time slice.
//
// Threads: any; not recursive. A thread that did not get it on the data path leaves a doorbell.
// Invariants: unlock() is a full fence, after which the holder looks for doorbells again, so that
//   no doorbell is missed.
// Errors: lock() throws std::system_error (EDEADLK) in a signal handler that has interrupted the
//   holder. exit() is called in such handlers, and destructors then call verbs.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace verbena::engine {

class EngineLock {
public:
	bool try_lock() {
		std::uint32_t free = 0;
		return word_.load(std::memory_order_relaxed) == 0 &&
			word_.compare_exchange_strong(free, this_thread(), std::memory_order_acquire);
	}
	void lock() {
		for (int spins = 0; spins < 100; ++spins) {
			if (try_lock()) return;
			__builtin_ia32_pause();
		}
		while (syscall(SYS_futex, &word_, FUTEX_LOCK_PI_PRIVATE, 0, nullptr, nullptr, 0) != 0) {
			if (try_lock()) return;
			if ((word_.load(std::memory_order_relaxed) & FUTEX_TID_MASK) == this_thread())
				throw std::system_error(EDEADLK, std::generic_category());
		}
#if defined(__SANITIZE_THREAD__)
		__tsan_acquire(&word_);  // the sanitizer does not see the kernel's part of the lock
#endif
	}
	void unlock() {
#if defined(__SANITIZE_THREAD__)
		__tsan_release(&word_);
#endif
		std::uint32_t mine = this_thread();
		if (!word_.compare_exchange_strong(mine, 0, std::memory_order_seq_cst)) [[unlikely]]
			syscall(SYS_futex, &word_, FUTEX_UNLOCK_PI_PRIVATE, 0, nullptr, nullptr, 0);
	}

	// In the child of a fork, whose only thread has another thread id.
	static void forget_thread() { thread_ = 0; }

	// The calling thread's id, without a system call for each call.
	static std::uint32_t this_thread() {
		if (thread_ == 0) [[unlikely]]
			thread_ = static_cast<std::uint32_t>(gettid());
		return thread_;
	}

private:
	static inline thread_local std::uint32_t thread_ = 0;
	std::atomic<std::uint32_t> word_{0};
};

}  // namespace verbena::engine

// SPDX-License-Identifier: Apache-2.0
// The wait of a destroy function until the program has acknowledged every event of the object that
// it has fetched (ibv_destroy_cq(3), ibv_destroy_qp(3), ibv_destroy_srq(3)).
//
// The public structs have a condition variable for this, which is not used: a thread that leaves
// pthread_cond_wait() by siglongjmp() makes later calls on the variable hang.
//
// Threads: any.
// Invariants: the waiting thread sleeps without a lock.
#pragma once

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include "nic/engine/waiting.h"

namespace verbena::verbs {

// A wait that may never end is explained once, after this time.
inline constexpr Nanoseconds overdue_after = 1'000'000'000;

class Acknowledgements {
public:
	// To call when the counts have changed, with the mutex of reached() held, because the
	// object may be destroyed as soon as it is free. Costs a system call only while a thread
	// waits.
	void notify() {
		changes_.fetch_add(1, std::memory_order_seq_cst);
		if (waiters_.load(std::memory_order_seq_cst) != 0)
			syscall(SYS_futex, &changes_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
	}

	// True if done(), which is called with `mutex` held. Otherwise the destroy function
	// returns, and sleeping() calls it again after the sleep that `call` describes. overdue()
	// is called once, when the waits have taken a second.
	template <class Done, class Overdue>
	bool reached(pthread_mutex_t& mutex, engine::BlockingCall& call, Done&& done, Overdue&& overdue) {
		// Neither a signal nor a cancellation ends this sleep, so it is short.
		constexpr Nanoseconds slice = 20'000'000;
		// Never taken back, because the thread may leave by siglongjmp().
		waiters_.store(1, std::memory_order_seq_cst);
		const std::uint32_t seen = changes_.load(std::memory_order_seq_cst);
		pthread_mutex_lock(&mutex);
		const bool is_done = done();
		const bool is_overdue = !is_done && ++slices_ == overdue_after / slice;
		pthread_mutex_unlock(&mutex);
		if (is_done) return true;
		if (is_overdue) overdue();
		call.sleep = engine::BlockingCall::Sleep::futex;
		call.word = &changes_;
		call.seen = seen;
		call.timeout = slice;
		return false;
	}

private:
	std::atomic<std::uint32_t> changes_{0}, waiters_{0};
	std::uint32_t slices_ = 0;  // under the mutex of reached()
};

}  // namespace verbena::verbs

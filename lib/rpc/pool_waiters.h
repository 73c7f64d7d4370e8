// SPDX-License-Identifier: Apache-2.0
// PoolWaiters: coroutines on several I/O threads that wait for the same event.
//
//     const PoolWaiters::Place place(waiters, loop);
//     if (nothing_has_happened()) co_await place.woken();
//
// The place exists before the coroutine looks for the last time, so no wake() is missed.
//
// Threads: thread-safe; a Place belongs to the thread of its loop.
// Lifetime: a Place lives in the frame of a coroutine of its loop, and ends before the PoolWaiters.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/async/loop.h"

namespace verbena::rpc {

class PoolWaiters {
	struct Parked {
		async::Loop& loop;
		async::List<async::Waiter> coroutine;  // empty or one
	};

public:
	class Place {
	public:
		Place(PoolWaiters& waiters, async::Loop& loop) : waiters_(waiters), parked_(std::make_shared<Parked>(loop)) {
			const std::lock_guard guard(waiters_.lock_);
			waiters_.parked_.push_back(parked_);
		}
		~Place() {
			const std::lock_guard guard(waiters_.lock_);
			std::erase(waiters_.parked_, parked_);
		}
		Place(const Place&) = delete;
		Place& operator=(const Place&) = delete;

		// Awaitable: resumes after a wake() that came since the place was made.
		async::Park woken() const { return async::Park(parked_->coroutine); }

	private:
		PoolWaiters& waiters_;
		const std::shared_ptr<Parked> parked_;
	};

	// Resumes the coroutines that have a place now.
	void wake() {
		const std::lock_guard guard(lock_);
		for (const auto& each : parked_) each->loop.post([each] { each->loop.resume_soon(each->coroutine); });
	}

private:
	std::mutex lock_;
	std::vector<std::shared_ptr<Parked>> parked_;
};

}  // namespace verbena::rpc

// SPDX-License-Identifier: Apache-2.0
// A counting semaphore for the coroutines of one loop: each permit has at most one holder at a
// time.
//
//     const auto permit = co_await semaphore.acquire();  // its destructor returns the permit
//
// Threads: all calls, and all destructors, on the loop's thread.
// Lifetime: permits and waiting coroutines are destroyed before the semaphore. A waiting coroutine
//   may be destroyed at any time, before or after a permit is assigned to it.
// Invariants: fair, first come, first served. A returned permit is assigned to the coroutine that
//   has waited longest, before that coroutine runs, so no later acquire() overtakes it and no
//   waiter starves while holders return their permits. A permit is free only while no coroutine
//   waits.
#pragma once

#include <cstddef>
#include <utility>

#include "lib/async/loop.h"

namespace verbena::async {

class Semaphore {
public:
	// `permits`: the number of coroutines that may hold one at the same time.
	Semaphore(Loop& loop, std::size_t permits) : loop_(loop), free_(permits) {}
	Semaphore(const Semaphore&) = delete;
	Semaphore& operator=(const Semaphore&) = delete;

	// One permit. Its destructor returns it to the semaphore; a Permit that was moved from has
	// none.
	class Permit {
	public:
		explicit Permit(Semaphore* of) : semaphore_(of) {}
		Permit(Permit&& other) noexcept : semaphore_(std::exchange(other.semaphore_, nullptr)) {}
		Permit& operator=(Permit&&) = delete;
		~Permit() {
			if (semaphore_ != nullptr) semaphore_->give_back();
		}

	private:
		Semaphore* semaphore_;
	};

	// The awaitable that acquire() returns, for one permit; await it at most once.
	class Acquire : public Waiter {
	public:
		explicit Acquire(Semaphore& semaphore) : semaphore_(semaphore) {}
		// A coroutine that is destroyed between the assignment of its permit and its resumption
		// passes the permit on.
		~Acquire() {
			if (assigned_) semaphore_.give_back();
		}
		bool await_ready() {
			if (semaphore_.free_ == 0) return false;
			--semaphore_.free_;
			return assigned_ = true;
		}
		void await_suspend(std::coroutine_handle<> handle) {
			coroutine = handle;
			semaphore_.waiting_.push_back(*this);
		}
		Permit await_resume() {
			assigned_ = false;
			return Permit(&semaphore_);
		}

	private:
		friend class Semaphore;
		Semaphore& semaphore_;
		bool assigned_ = false;
	};
	// Waits for a permit and returns it.
	Acquire acquire() { return Acquire(*this); }

private:
	void give_back() {
		if (Acquire* const next = waiting_.pop_front()) {
			next->assigned_ = true;
			loop_.resume_soon(*next);
		} else {
			++free_;
		}
	}

	Loop& loop_;
	std::size_t free_;  // 0 while a coroutine waits
	List<Acquire> waiting_;
};

}  // namespace verbena::async

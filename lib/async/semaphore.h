// So many at a time; the others wait in order.
//
//     const auto permit = co_await semaphore.acquire();      // until `permit` goes
//
// Of one loop's thread. Permits and waiters die before it.
#pragma once

#include <cstddef>
#include <utility>

#include "lib/async/loop.h"

namespace verbena::async {

class Semaphore {
public:
	Semaphore(Loop& loop, std::size_t permits) : loop_(loop), free_(permits) {}
	Semaphore(const Semaphore&) = delete;
	Semaphore& operator=(const Semaphore&) = delete;

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

	Task<Permit> acquire() {
		while (free_ == 0) co_await Park(waiting_);
		--free_;
		co_return Permit(this);
	}

private:
	void give_back() {
		++free_;
		if (Waiter* next = waiting_.pop_front()) loop_.resume_soon(*next);
	}
	Loop& loop_;
	std::size_t free_;
	List<Waiter> waiting_;
};

}  // namespace verbena::async

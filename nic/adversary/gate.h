// SPDX-License-Identifier: Apache-2.0
// The gate of one completion queue: how many of the completions that are in the queue a poller gets
// now. It makes them late, and lets them come in bursts.
//
// Threads: any.
// Invariants: a completion is hidden from hidden_polls_max polls and for hidden_time_max at most.
//   A completion that is in the queue when the program requests an event is not hidden any more,
//   because none may come for it (ibv_req_notify_cq(3)). Nor is one that is there when a queue pair
//   of the queue reports IBV_EVENT_QP_LAST_WQE_REACHED: an empty queue then says that the queue
//   pair has returned all its receives (IBA 10.3.1, as quoted in the kernel's
//   drivers/infiniband/ulp/ipoib/ipoib.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>

#include "base/spin_lock.h"
#include "nic/adversary/draws.h"

namespace verbena::adversary {

class Gate {
public:
	// `number`: the queue in the order of creation, from 1.
	Gate(const Spec& spec, std::uint32_t number) : spec_(spec), number_(number) {}

	// The number that a poll for `wanted` may take now of `ready` completions in the queue.
	int admit(std::uint32_t ready, int wanted, Nanoseconds now) {
		const std::lock_guard lock(lock_);
		if (!spec_.has(Kind::completions)) return wanted;
		if (ready == 0) return note_admitted(wanted);
		if (shown_end_ > taken_)
			return note_admitted(
				static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(wanted), shown_end_ - taken_)));
		if (!decided_) decide(now);
		if (polls_left_ != 0 && now < hidden_until_) {
			--polls_left_;
			return 0;
		}
		return note_admitted(std::min(wanted, burst_));
	}
	// The poll that was admitted has taken this many.
	void took(int count) {
		const std::lock_guard lock(lock_);
		taken_ += static_cast<std::uint64_t>(count);
		admitted_ = 0;
		if (count > 0) decided_ = false;
	}
	// The program requests an event while `ready` completions are in the queue.
	void arm(std::uint32_t ready) {
		const std::lock_guard lock(lock_);
		show_all(ready);
		++armed_;
	}
	// A queue pair reports its last receive while `ready` completions are in the queue.
	void show(std::uint32_t ready) {
		const std::lock_guard lock(lock_);
		show_all(ready);
	}
	// Whether this request gets no event for completions that are in the queue already, and whether
	// an event comes for nothing.
	bool is_strict() const { return event_bits() % 2 != 0; }
	bool is_spurious() const { return (event_bits() >> 8) % 8 == 1; }
	// The time by which the next event is late; 0: it is not.
	Nanoseconds event_delay() {
		const std::lock_guard lock(lock_);
		if (!spec_.has(Kind::events)) return 0;
		const std::uint64_t bits = draw(*spec_.seed, Kind::events, {number_, 1, raised_++});
		return bits % 4 == 1 ? slow_delay_of(bits >> 8) : 0;
	}
	// The polls from which a completion is hidden, once for each that is; otherwise 0.
	std::uint64_t take_decision() {
		const std::lock_guard lock(lock_);
		return std::exchange(polls_decided_, 0);
	}
	// A value for a field that has none.
	std::uint32_t junk() const {
		return static_cast<std::uint32_t>(draw(*spec_.seed, Kind::completions, {number_, 2, taken_}));
	}
	bool makes_junk() const { return spec_.has(Kind::completions); }

	static constexpr std::uint32_t hidden_polls_max = 64;
	static constexpr Nanoseconds hidden_time_max = 5'000'000;

private:
	int note_admitted(int count) {
		admitted_ = static_cast<std::uint64_t>(count);
		return count;
	}
	// A poll that is under way may have taken completions off the queue already.
	void show_all(std::uint32_t ready) { shown_end_ = std::max(shown_end_, taken_ + admitted_ + ready); }
	void decide(Nanoseconds now) {
		const std::uint64_t bits = draw(*spec_.seed, Kind::completions, {number_, 0, taken_});
		decided_ = true;
		polls_left_ = bits % 4 != 0 ? 0 : 1 + (bits >> 8) % ((bits >> 4 & 1) ? 4 : hidden_polls_max);
		polls_decided_ = polls_left_;
		hidden_until_ = now + hidden_time_max;
		burst_ = (bits >> 32) % 2 ? 1 + static_cast<int>((bits >> 40) % 8) : 1 << 20;
	}
	std::uint64_t event_bits() const {
		return spec_.has(Kind::events) ? draw(*spec_.seed, Kind::events, {number_, 0, armed_}) : 0;
	}

	const Spec spec_;
	const std::uint32_t number_;
	SpinLock lock_;
	std::uint64_t taken_ = 0, shown_end_ = 0, armed_ = 0, raised_ = 0;
	std::uint64_t admitted_ = 0;  // to the poll that is under way
	bool decided_ = false;
	std::uint64_t polls_left_ = 0, polls_decided_ = 0;
	Nanoseconds hidden_until_ = 0;
	int burst_ = 1;
};

}  // namespace verbena::adversary

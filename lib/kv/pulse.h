// SPDX-License-Identifier: Apache-2.0
// Pulse: when a server's housekeeping is due. While there is work that is 100 times a second,
// otherwise once a second, so that an idle server sleeps.
//
// Threads: one, that of the loop.
// Lifetime: dies before the loop.
// Invariants: a beat comes 10 ms after work at the latest, and at the time that `due` names.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "lib/async/loop.h"

namespace verbena::kv {

class Pulse final : private async::Timer {
public:
	static constexpr Nanoseconds quick = 10'000'000, slow = 1'000'000'000;

	// `awake` is called when work comes after a time without work. `due` returns the time at which
	// there is work without a request; `never`: there is none.
	Pulse(async::Loop& loop, std::function<void()> awake, std::function<Nanoseconds()> due)
		: loop_(loop), awake_(std::move(awake)), due_(std::move(due)) {}
	~Pulse() { loop_.cancel(*this); }
	Pulse(const Pulse&) = delete;
	Pulse& operator=(const Pulse&) = delete;

	// Begins to beat. Call it once.
	void begin() { expire(); }
	// There is work now.
	void quicken() {
		if (std::exchange(worked_, true) || !slow_) return;
		slow_ = false;
		awake_();
		loop_.schedule(*this, loop_.now() + quick);
	}
	// The coroutines that each beat resumes.
	async::List<async::Waiter>& beats() { return beats_; }

private:
	void expire() override {
		loop_.resume_soon(beats_);
		const Nanoseconds now = loop_.now(), due = due_();
		slow_ = !std::exchange(worked_, false) && due > now + quick;
		loop_.schedule(*this, slow_ ? std::min(due, now + slow) : now + quick);
	}

	async::Loop& loop_;
	const std::function<void()> awake_;
	const std::function<Nanoseconds()> due_;
	async::List<async::Waiter> beats_;
	bool worked_ = false;  // since the last beat
	bool slow_ = false;  // the next beat is more than `quick` after the last one
};

}  // namespace verbena::kv

// SPDX-License-Identifier: Apache-2.0
// Backoff: when to connect to a server again, and how long that may take.
//
// The pause doubles from 10 ms to 1 s while connects fail, or connections end soon after they were
// made. The time that one connect may take doubles from 1 s to 10 s.
//
// Threads: any one at a time; no I/O, and time is an argument.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace verbena::kv {

class Backoff {
public:
	static constexpr Nanoseconds pause_min = 10'000'000, pause_max = 1'000'000'000;
	static constexpr Nanoseconds patience_min = 1'000'000'000, patience_max = 10'000'000'000;
	// A connection that has lasted this long counts as a good one.
	static constexpr Nanoseconds good_after = 1'000'000'000;

	void connected(Nanoseconds now) {
		connected_ = now;
		patience_ = patience_min;
	}
	// The connection has ended. Returns the pause before the next connect.
	Nanoseconds ended(Nanoseconds now) {
		if (now - connected_ >= good_after) pause_ = pause_min;
		return next_pause();
	}
	// A connect has failed. Returns the pause before the next one.
	Nanoseconds failed() {
		patience_ = std::min(patience_ * 2, patience_max);
		return next_pause();
	}
	// The time that the next connect may take.
	Nanoseconds patience() const { return patience_; }

private:
	Nanoseconds next_pause() {
		const Nanoseconds pause = pause_;
		pause_ = std::min(pause_ * 2, pause_max);
		return pause;
	}

	Nanoseconds pause_ = pause_min, patience_ = patience_min;
	Nanoseconds connected_ = 0;
};

}  // namespace verbena::kv

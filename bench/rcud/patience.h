// SPDX-License-Identifier: Apache-2.0
// Time in the measured loops. The clock is an end's, and a clock may jump, so it is not trusted: a
// step backwards is a Failure, and a step forwards is not taken for a time of waiting.
//
// Threads: one thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbena::rcud {

// Two readings of a waiting loop are less than this apart, unless its process did not run.
inline constexpr std::uint64_t step_max_ns = 50'000'000;

[[noreturn, gnu::cold]] void complain_of_clock(std::uint64_t before, std::uint64_t now);

// Readings of an end's now() that never decrease.
//
// Errors: a Failure if the clock went backwards.
template <class E> class Clock {
public:
	explicit Clock(E& end) : end_(end) {}

	std::uint64_t now() {
		const std::uint64_t now = end_.now();
		if (now < last_) [[unlikely]]
			complain_of_clock(last_, now);
		return last_ = now;
	}

private:
	E& end_;
	std::uint64_t last_ = 0;
};

// The time since the last progress. A clock that jumps forwards, or a process that was stopped,
// adds at most `step_max_ns`.
class Wait {
public:
	void restart() { begun_ = false; }

	// Returns the time waited so far, which begins with the first call.
	std::uint64_t at(std::uint64_t now) {
		waited_ns_ = begun_ ? waited_ns_ + std::min(now - last_, step_max_ns) : 0;
		begun_ = true;
		last_ = now;
		return waited_ns_;
	}

private:
	bool begun_ = false;
	std::uint64_t last_ = 0, waited_ns_ = 0;
};

}  // namespace verbena::rcud

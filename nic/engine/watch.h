// Decides whether packets from other hosts wake the progress thread while the program makes verbs
// calls.
//
// A program that polls its queues reads the sockets itself, and a thread that wakes for each packet
// takes the processor and the engine's lock from it. A program that waits for bytes in memory makes
// verbs calls too, for its own requests, but never reads what its peer sends: then the progress
// thread must wake at once. The two cannot be distinguished beforehand, so the progress thread
// learns from what it finds.
//
//   silent    the thread only looks now and then (ticks). If two of its last eight ticks found
//             packets that had waited since the tick before, while the program ran and made no
//             pass: watching.
//   watching  packets wake the thread. If three quarters of 32 wakes found nothing: silent.
//
// On a processor that both share, the thread that wakes interrupts the program and always finds the
// packet. So watching also ends by itself, after a millisecond. If it soon begins again, it lasts
// twice as long as before, up to a second.
//
// A process whose program makes no verbs calls is ARMED, and packets wake its thread, whatever this
// object says.
//
// Threads: under the engine's lock. Time is an argument.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/time.h"

namespace verbena::engine {

class Watch {
public:
	static constexpr int ticks_remembered = 8, ticks_to_watch = 2;
	static constexpr std::uint32_t wakes_judged = 32;
	static constexpr Nanoseconds stay_first = 1'000'000, stay_longest = 1'000'000'000;
	// Watching begins again soon if that is within four times its last duration, or in this time.
	static constexpr Nanoseconds soon_min = 20'000'000;

	bool watching() const { return watching_; }

	// A tick while silent. `waited`: it found packets, and since the tick before the program has
	// run and made no pass.
	void tick(bool waited, Nanoseconds now) {
		ticks_ = static_cast<std::uint8_t>(ticks_ << 1 | (waited ? 1 : 0));
		if (std::popcount(ticks_) < ticks_to_watch) return;
		watching_ = true;
		ticks_ = 0;
		wakes_ = needless_ = 0;
		const bool soon = now - ended_ < std::max(4 * stay_, soon_min);
		stay_ = soon ? std::clamp(2 * stay_, stay_first, stay_longest) : stay_first;
		until_ = now + stay_;
	}

	// A wake while watching. `found`: there was something to do.
	void wake(bool found, Nanoseconds now) {
		++wakes_;
		needless_ += found ? 0 : 1;
		const bool judged = wakes_ >= wakes_judged;
		if (now >= until_ || (judged && 4 * needless_ >= 3 * wakes_)) {
			watching_ = false;
			ended_ = now;
		}
		if (judged) wakes_ = needless_ = 0;
	}

private:
	bool watching_ = false;
	std::uint8_t ticks_ = 0;  // the last of them in the lowest bit
	static_assert(8 * sizeof ticks_ == ticks_remembered);
	std::uint32_t wakes_ = 0, needless_ = 0;
	Nanoseconds until_ = 0, ended_ = 0, stay_ = 0;
};

}  // namespace verbena::engine

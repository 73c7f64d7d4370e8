// SPDX-License-Identifier: Apache-2.0
// Bounds the time that a process spends on connections of strangers, which it can only refuse.
//
// A stranger can connect to any name that it reads in /proc/net/unix, as often as it likes, and
// each connection must be accepted to see its user. A few strangers are refused at once. When they
// become many, the listening socket is left alone for a pause, in which the kernel holds at most
// its backlog, and then emptied in one visit.
//
// Threads: used by one thread.
// Invariants: strangers get `burst` connections refused at once, after that `a_second`, then one
//   visit a pause to each flooded socket. The pauses grow with the number of flooded sockets, so
//   the visits together cost the same however many there are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace verbena::engine {

class FloodGuard {
public:
	static constexpr std::uint32_t burst = 32, a_second = 200;
	static constexpr Nanoseconds pause_min = 5'000'000, pause_max = 40'000'000;

	// After a visit to a listening socket that found `strangers`: the time until the next one, 0 if
	// the socket need not be left alone. `flooded`: the number of other sockets that are left
	// alone.
	Nanoseconds pause_after(std::uint32_t strangers, std::size_t flooded, Nanoseconds now) {
		const Nanoseconds refilled = (now - refilled_at_) * a_second / 1'000'000'000;
		if (refilled > 0) {
			credit_ = static_cast<std::uint32_t>(std::min<Nanoseconds>(burst, credit_ + refilled));
			refilled_at_ = now;
		}
		if (strangers <= credit_) {
			credit_ -= strangers;
			if (credit_ == burst) pause_ = 0;
			return 0;
		}
		credit_ = 0;
		pause_ = std::clamp(2 * pause_, pause_min, pause_max);
		return pause_ * static_cast<Nanoseconds>(1 + flooded);
	}

private:
	std::uint32_t credit_ = burst;
	Nanoseconds refilled_at_ = 0;
	Nanoseconds pause_ = 0;
};

}  // namespace verbena::engine

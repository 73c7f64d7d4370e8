// SPDX-License-Identifier: Apache-2.0
// The wall clock, for times that outlive the process. Everything else uses the monotonic clock.
//
// Threads: any; pure functions but for the clock.
#pragma once

#include <chrono>

#include "base/time.h"

namespace verbena::kv {

// Nanoseconds since 1970 (CLOCK_REALTIME).
inline Nanoseconds wall_now() {
	return static_cast<Nanoseconds>(std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

// The wall time of the monotonic time `end`, while that is `now`; 0 for `never`.
inline Nanoseconds wall_time_of(Nanoseconds end, Nanoseconds now) { return end == never ? 0 : wall_now() + end - now; }

// The monotonic time of a wall time, while that is `now`; `now` if it is past, `never` for 0. So a
// change of the wall clock between two processes changes the rest of a life.
inline Nanoseconds monotonic_time_of(Nanoseconds wall, Nanoseconds now) {
	if (wall == 0) return never;
	const Nanoseconds present = wall_now();
	return now + (wall > present ? wall - present : 0);
}

}  // namespace verbena::kv

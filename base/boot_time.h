// SPDX-License-Identifier: Apache-2.0
// The time of a clock that goes on while the machine is suspended. Compare it only with itself:
// timers and deadlines use the monotonic clock (base/time.h).
#pragma once

#include "base/time.h"

namespace verbena {

// The time of CLOCK_BOOTTIME now.
inline Nanoseconds boot_now() {
	timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return static_cast<Nanoseconds>(t.tv_sec) * 1'000'000'000 + static_cast<Nanoseconds>(t.tv_nsec);
}

}  // namespace verbena

// SPDX-License-Identifier: Apache-2.0
// Time as a value: nanoseconds on the monotonic clock, passed as an argument to all code that needs
// it. Wrapping is no concern: 2^64 ns are 584 years.
#pragma once

#include <cstdint>
#include <ctime>

namespace verbena {

using Nanoseconds = std::uint64_t;
inline constexpr Nanoseconds us = 1'000, ms = 1'000'000, second = 1'000'000'000;
// A deadline that never comes.
inline constexpr Nanoseconds never = ~Nanoseconds{0};

// The time of CLOCK_MONOTONIC now.
inline Nanoseconds monotonic_now() {
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<Nanoseconds>(t.tv_sec) * 1'000'000'000 + static_cast<Nanoseconds>(t.tv_nsec);
}

// `ns` is not `never`.
constexpr timespec to_timespec(Nanoseconds ns) {
	return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

}  // namespace verbena

// SPDX-License-Identifier: Apache-2.0
// DurationBuckets: counts durations in buckets for a histogram of Prometheus: bounds from 1 us to
// 67 s, each twice the one before, and a last bucket without a bound.
//
// Threads: one at a time. duration_bucket() is a pure function.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace verbena {

inline constexpr std::size_t duration_bounds = 27;
// The number of buckets, with the last one.
inline constexpr std::size_t duration_buckets = duration_bounds + 1;

// The first bucket whose bound is not below this duration. The bound of bucket i is 2^i us.
constexpr std::size_t duration_bucket(Nanoseconds duration) {
	const std::uint64_t microseconds = duration / 1000 + (duration % 1000 != 0 ? 1 : 0);
	return microseconds <= 1 ? 0 : std::min<std::size_t>(std::bit_width(microseconds - 1), duration_bounds);
}

struct DurationBuckets {
	std::array<std::uint64_t, duration_buckets> counts{};
	Nanoseconds sum = 0;

	void record(Nanoseconds duration) {
		++counts[duration_bucket(duration)];
		sum += duration;
	}
	std::uint64_t count() const {
		std::uint64_t all = 0;
		for (const std::uint64_t each : counts) all += each;
		return all;
	}
};

}  // namespace verbena

// SPDX-License-Identifier: Apache-2.0
#include "base/duration_buckets.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

TEST(DurationBuckets, ADurationFallsIntoTheFirstBucketThatHoldsIt) {
	EXPECT_EQ(duration_bucket(0), 0u);
	Nanoseconds bound = 1000;
	for (std::size_t i = 0; i < duration_bounds; ++i, bound *= 2) {
		EXPECT_EQ(duration_bucket(bound), i);
		EXPECT_EQ(duration_bucket(bound + 1), i + 1);
	}
	EXPECT_EQ(duration_bucket(never), duration_bounds);
}

TEST(DurationBuckets, TheSumAndTheNumberAreThoseOfAllDurations) {
	DurationBuckets buckets;
	for (const Nanoseconds each : {0ull, 1'500ull, 100'000'000'000ull}) buckets.record(each);
	EXPECT_EQ(buckets.count(), 3u);
	EXPECT_EQ(buckets.sum, 100'000'001'500u);
	EXPECT_EQ(buckets.counts[1], 1u);
	EXPECT_EQ(buckets.counts.back(), 1u);
}

}  // namespace
}  // namespace verbena

// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/write_pace.h"

#include <gtest/gtest.h>

namespace verbena::bench {
namespace {

constexpr Nanoseconds second = 1'000'000'000, start = 1000 * second;

TEST(WritePace, IsAWriteASecondIfWritesAreShort) {
	WritePace pace(start);
	EXPECT_FALSE(pace.is_due(start + second - 1));
	EXPECT_TRUE(pace.is_due(start + second));
	const Nanoseconds ended = start + second + second / 100;
	pace.wrote(start + second, ended);
	EXPECT_FALSE(pace.is_due(ended + second - 1));
	EXPECT_TRUE(pace.is_due(ended + second));
}

TEST(WritePace, SpendsATwentiethOfTheTimeOnLongWrites) {
	WritePace pace(start);
	const Nanoseconds took = 3 * second, ended = start + second + took;
	pace.wrote(start + second, ended);
	EXPECT_FALSE(pace.is_due(ended + 19 * took - 1));
	EXPECT_TRUE(pace.is_due(ended + 19 * took));
}

}  // namespace
}  // namespace verbena::bench

// SPDX-License-Identifier: Apache-2.0
#include "base/repeat_filter.h"

#include <gtest/gtest.h>

#include <string>

namespace verbena {
namespace {

constexpr Nanoseconds first_time = 5'000'000'000;

TEST(RepeatFilter, LetsATextThroughOnceInASecond) {
	RepeatFilter filter;
	EXPECT_EQ(filter.admit("no room", first_time), 0u);
	EXPECT_EQ(filter.admit("no room", first_time + 1), std::nullopt);
	EXPECT_EQ(filter.admit("no room", first_time + RepeatFilter::pause - 1), std::nullopt);
}

TEST(RepeatFilter, CountsTheRepetitionsThatItLeftOut) {
	RepeatFilter filter;
	filter.admit("no room", first_time);
	for (int i = 0; i < 7; ++i) filter.admit("no room", first_time + 10);
	EXPECT_EQ(filter.admit("no room", first_time + RepeatFilter::pause), 7u);
	EXPECT_EQ(filter.admit("no room", first_time + 2 * RepeatFilter::pause), 0u);
}

TEST(RepeatFilter, LetsEachOtherTextThrough) {
	RepeatFilter filter;
	for (int i = 0; i < 1000; ++i) EXPECT_EQ(filter.admit("queue pair " + std::to_string(i), first_time), 0u) << i;
}

TEST(RepeatFilter, LetsTheFirstTextThroughAtTimeZero) {
	RepeatFilter filter;
	EXPECT_EQ(filter.admit("", 0), 0u);
}

}  // namespace
}  // namespace verbena

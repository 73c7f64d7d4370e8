// SPDX-License-Identifier: Apache-2.0
#include "base/repeat_filter.h"

#include <gtest/gtest.h>

#include <string>

namespace verbena {
namespace {

constexpr Nanoseconds start = 5'000'000'000;

TEST(RepeatFilter, LetsATextThroughOnceInASecond) {
	RepeatFilter filter;
	EXPECT_EQ(filter.admit("no room", start), 0u);
	EXPECT_EQ(filter.admit("no room", start + 1), std::nullopt);
	EXPECT_EQ(filter.admit("no room", start + RepeatFilter::pause - 1), std::nullopt);
}

TEST(RepeatFilter, CountsTheRepetitionsThatItLeftOut) {
	RepeatFilter filter;
	filter.admit("no room", start);
	for (int i = 0; i < 7; ++i) filter.admit("no room", start + 10);
	EXPECT_EQ(filter.admit("no room", start + RepeatFilter::pause), 7u);
	EXPECT_EQ(filter.admit("no room", start + 2 * RepeatFilter::pause), 0u);
}

TEST(RepeatFilter, LetsEachOtherTextThrough) {
	RepeatFilter filter;
	for (int i = 0; i < 1000; ++i) EXPECT_EQ(filter.admit("queue pair " + std::to_string(i), start), 0u) << i;
}

TEST(RepeatFilter, LetsTheFirstTextThroughAtTimeZero) {
	RepeatFilter filter;
	EXPECT_EQ(filter.admit("", 0), 0u);
}

}  // namespace
}  // namespace verbena

// SPDX-License-Identifier: Apache-2.0
#include "base/statistics.h"

#include <gtest/gtest.h>
#include <numeric>

namespace verbena {
namespace {

std::vector<double> one_to(int n) {
	std::vector<double> values(n);
	std::iota(values.begin(), values.end(), 1.0);
	return values;
}

TEST(Statistics, TheMedianIgnoresOrderAndOutliers) {
	EXPECT_EQ(median(std::vector{9.0, 1.0, 1000.0, 2.0, 3.0}), 3.0);
	EXPECT_EQ(median(std::vector{4.0, 1.0, 3.0, 2.0}), 2.5);
	EXPECT_EQ(median(std::vector{7.0}), 7.0);
}

TEST(Statistics, SpreadIsTheRangeInMedians) {
	EXPECT_DOUBLE_EQ(spread(std::vector{9.0, 10.0, 12.0}), 0.3);
	EXPECT_EQ(spread(std::vector{0.0, 0.0}), 0.0);
}

TEST(Statistics, FiveRepetitionsGiveTheirWholeRange) { EXPECT_EQ(median_interval(one_to(5)), (Interval{1, 5})); }

// Ranks from tables of the sign test: 6 -> (1,6), 9 -> (2,8), 10 -> (2,9), 20 -> (6,15).
TEST(Statistics, LargerSamplesGiveTheTabulatedRanks) {
	EXPECT_EQ(median_interval(one_to(6)), (Interval{1, 6}));
	EXPECT_EQ(median_interval(one_to(9)), (Interval{2, 8}));
	EXPECT_EQ(median_interval(one_to(10)), (Interval{2, 9}));
	EXPECT_EQ(median_interval(one_to(20)), (Interval{6, 15}));
}

TEST(Statistics, OneValueIsItsOwnInterval) { EXPECT_EQ(median_interval(std::vector{4.0}), (Interval{4, 4})); }

}  // namespace
}  // namespace verbena

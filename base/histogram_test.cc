// SPDX-License-Identifier: Apache-2.0
#include "base/histogram.h"

#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace verbena {
namespace {

std::uint64_t exact(std::vector<std::uint64_t> values, double fraction) {
	std::ranges::sort(values);
	const auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(values.size())));
	return values[std::max<std::size_t>(rank, 1) - 1];
}

TEST(Histogram, SmallValuesAreExact) {
	Histogram histogram;
	for (std::uint64_t value = 0; value < 128; ++value) histogram.record(value);
	for (std::uint64_t value = 0; value < 128; ++value)
		EXPECT_EQ(histogram.quantile((static_cast<double>(value) + 0.5) / 128), value);
}

// Compares with exact quantiles of the same values: uniform, exponential, and with a long tail.
TEST(Histogram, EveryQuantileIsWithinOneSixtyFourthAboveTheExactOne) {
	std::mt19937_64 random(42);
	std::vector<std::vector<std::uint64_t>> samples(3);
	std::exponential_distribution<double> exponential(1e-4);
	for (int i = 0; i < 50'000; ++i) {
		samples[0].push_back(random() % 1'000'000);
		samples[1].push_back(static_cast<std::uint64_t>(exponential(random)));
		samples[2].push_back(i % 100 == 0 ? random() % 10'000'000'000 : 300 + random() % 50);
	}
	for (const auto& values : samples) {
		Histogram histogram;
		for (const std::uint64_t value : values) histogram.record(value);
		for (const double fraction : {0.0, 0.001, 0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0}) {
			const std::uint64_t truth = exact(values, fraction);
			EXPECT_GE(histogram.quantile(fraction), truth);
			EXPECT_LE(static_cast<double>(histogram.quantile(fraction)), static_cast<double>(truth) * (1 + 1.0 / 64));
		}
	}
}

TEST(Histogram, TakesTheLargestNumber) {
	Histogram histogram;
	histogram.record(UINT64_MAX);
	EXPECT_EQ(histogram.quantile(0.5), UINT64_MAX);
	EXPECT_EQ(histogram.min(), UINT64_MAX);
}

TEST(Histogram, EmptyAnswersZero) {
	EXPECT_EQ(Histogram().quantile(0.5), 0u);
	EXPECT_EQ(Histogram().min(), 0u);
}

TEST(Histogram, MergingEqualsRecordingInOne) {
	Histogram a, b, both;
	for (std::uint64_t value = 1; value < 5000; value += 7) (value % 2 ? a : b).record(value), both.record(value);
	a.merge(b);
	EXPECT_EQ(a.count(), both.count());
	EXPECT_EQ(a.min(), both.min());
	for (const double fraction : {0.1, 0.5, 0.99}) EXPECT_EQ(a.quantile(fraction), both.quantile(fraction));
}

}  // namespace
}  // namespace verbena

#include "bench/judge/repetitions.h"

#include <gtest/gtest.h>

namespace verbena::bench {
namespace {

// A row with the percentiles of these histograms together.
Json row_of(std::initializer_list<Histogram> histograms) {
	Json repetitions = Json::array();
	for (const Histogram& each : histograms) add_latency(repetitions.emplace_back(Json::object()), each, {});
	Json row = Json::object();
	summarize_latency(row, repetitions, {});
	row["repetitions"] = std::move(repetitions);
	return row;
}

Histogram of(std::uint64_t common, std::uint64_t longest) {
	Histogram latency;
	latency.record(common, 999);
	latency.record(longest, 2);
	return latency;
}

Verdict judged(const Json& row) {
	Findings findings;
	examine_percentiles(row, {}, findings);
	return findings.verdict();
}

// A percentile is rounded up to the end of its bucket, but not above the largest value, and the
// repetitions together have a larger one.
TEST(Percentiles, LieBetweenThoseOfTheRepetitionsWithinABucket) {
	const Json row = row_of({of(1000, 10'000), of(2000, 1'000'000)});
	Histogram first = of(1000, 65'000), second;
	second.record(1000, 100);
	second.record(900'000);
	const Json clipped = row_of({first, second});
	EXPECT_GT(clipped["p999_us"], clipped["repetitions"][0]["p999_us"]);
	EXPECT_EQ(judged(row).reason, "");
	EXPECT_EQ(judged(clipped).reason, "");
}

TEST(Percentiles, OutsideOfThoseOfTheRepetitionsAreInvalid) {
	Json row = row_of({of(1000, 10'000), of(2000, 20'000)});
	row["p50_us"] = row["p50_us"].get<double>() * 0.4;
	EXPECT_EQ(judged(row).reason, "p50_us is not between those of the repetitions");
	row = row_of({of(1000, 10'000), of(2000, 20'000)});
	row["max_us"] = 21.0;
	EXPECT_EQ(judged(row).reason, "max_us is not between those of the repetitions");
}

}  // namespace
}  // namespace verbena::bench

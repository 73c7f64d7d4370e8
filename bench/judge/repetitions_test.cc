#include "bench/judge/repetitions.h"

#include <gtest/gtest.h>

namespace verbena::bench {
namespace {

// As they stand in a table that was read from CSV.
Json without_histogram(const Histogram& latency) {
	Json repetition = Json::object();
	add_latency(repetition, latency, {});
	repetition.erase("latency_ns");
	return repetition;
}

// The median of the first one is its maximum, which is not the largest value of its bucket.
TEST(Percentiles, OfAllRepetitionsMayLieABucketAboveThoseOfEach) {
	Histogram first, second;
	first.record(100'000, 100);
	second.record(90'000, 10);
	second.record(200'000, 9);
	Json row = Json::object(), repetitions = Json::array();
	for (const Histogram& each : {first, second}) add_latency(repetitions.emplace_back(Json::object()), each, {});
	summarize_latency(row, repetitions, {});
	EXPECT_GT(row["p50_us"], repetitions[0]["p50_us"]);
	row["repetitions"] = {without_histogram(first), without_histogram(second)};
	Findings findings;
	examine_percentiles(row, {}, findings);
	EXPECT_EQ(findings.verdict().reason, "");
	row["p50_us"] = 120.0;
	row["p90_us"] = 150.0;
	examine_percentiles(row, {}, findings);
	EXPECT_TRUE(findings.verdict().reason.starts_with("p50_us is not between those of the repetitions"));
}

}  // namespace
}  // namespace verbena::bench

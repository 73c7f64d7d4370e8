// SPDX-License-Identifier: Apache-2.0
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

Json repetition(std::initializer_list<std::uint64_t> latencies) {
	Histogram histogram;
	for (const std::uint64_t each : latencies) histogram.record(each);
	Json json;
	add_latency(json, histogram, {});
	return json;
}

Json row(const std::vector<Json>& repetitions) {
	Json json{{"repetitions", repetitions}};
	summarize_latency(json, json["repetitions"], {});
	return json;
}

std::string judged_text(const Json& row) {
	Findings findings;
	examine_percentiles(row, {}, findings);
	return findings.verdict().reason;
}

TEST(Latencies, OfARowAreThoseOfAllRepetitionsTogether) {
	const Json one = row({repetition({1000, 1000, 1000}), repetition({1000, 9000})});
	EXPECT_EQ(one["max_us"], 9.0);
	EXPECT_NEAR(one["p50_us"].get<double>(), 1, 0.02);
	EXPECT_EQ(judged_text(one), "");
}

TEST(Latencies, ThatNoRepetitionHasAreInvalid) {
	Json one = row({repetition({1000, 2000}), repetition({1000, 2000})});
	one["p50_us"] = 1.1;
	EXPECT_EQ(judged_text(one), "p50_us is not between those of the repetitions");
	one["p50_us"] = 0.9;
	EXPECT_EQ(judged_text(one), "p50_us is not between those of the repetitions");
	one["p50_us"] = nullptr;
	EXPECT_EQ(judged_text(one), "p50_us is not between those of the repetitions");
}

TEST(Latencies, OfARepetitionFollowFromItsHistogram) {
	Findings none, other, broken, absent;
	Json one = repetition({1000, 2000});
	EXPECT_TRUE(examine_latency(one, {}, none));
	EXPECT_EQ(none.verdict().reason, "");
	one["p99_us"] = 3.0;
	EXPECT_TRUE(examine_latency(one, {}, other));
	EXPECT_EQ(other.verdict().reason, "p99_us is 3.0, but the histogram gives 2.0");
	one["latency_ns"]["count"] = 7;
	EXPECT_FALSE(examine_latency(one, {}, broken));
	EXPECT_EQ(broken.verdict().validity, Validity::invalid);
	one.erase("latency_ns");
	one["p90_us"] = 0.5;
	one["p99_us"] = 2.0;
	EXPECT_FALSE(examine_latency(one, {}, absent)) << "it came from CSV";
	EXPECT_EQ(absent.verdict().reason, "p90_us is below p50_us");
}

TEST(Numbers, OfARepetitionAreFiniteAndNotNegative) {
	const Json one{{"count", 3}, {"negative", -1}, {"word", "x"}, {"none", nullptr}};
	EXPECT_EQ(count_in(one, "count"), 3u);
	for (const char* name : {"negative", "word", "none", "absent"}) {
		EXPECT_THROW(count_in(one, name), Json::exception) << name;
		EXPECT_THROW(number_in(one, name), Json::exception) << name;
	}
	EXPECT_EQ(numbers_in(Json::array({one, one}), "none").size(), 0u);
}

TEST(Means, AreThoseOfTheRecordedValues) {
	Histogram histogram;
	histogram.record(100, 3);
	histogram.record(500);
	EXPECT_NEAR(mean_of(histogram), 200, 200.0 / 64);
	EXPECT_EQ(mean_of({}), 0);
}

}  // namespace
}  // namespace verbena::bench

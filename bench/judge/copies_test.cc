// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/copies.h"

#include <gtest/gtest.h>

#include "bench/judge/fixture.h"
#include "bench/judge/judge.h"
#include "bench/table/histogram.h"

namespace verbena::bench {
namespace {

using testing_tools::sums;

Json timed_row(int size, std::initializer_list<std::uint64_t> times) {
	Json row{{"size", size}, {"rate", times.size()}, {"kind", "sum"}, {"repetitions", Json::array()}};
	for (const std::uint64_t each : times) row["repetitions"].push_back({{"rate", 1}, {"elapsed_ns", each}});
	return row;
}

// The same experiment with latencies, and with these times.
Experiment with_latencies(std::span<const std::string_view> times) {
	static constexpr Latency latency{};
	Experiment experiment = sums;
	experiment.times = times;
	experiment.latencies = [](const Json&) { return std::span(&latency, 1); };
	return experiment;
}

std::string reason_of_last(const std::vector<Json>& rows) { return judge(sums, {.rows = rows})->back().reason; }

TEST(Copies, AreRepetitionsThatTookTheSameTimes) {
	EXPECT_EQ(reason_of_last({timed_row(8, {1000, 1001, 1002})}), "");
	EXPECT_EQ(reason_of_last({timed_row(8, {1000, 1001, 1000})}), "repetition 3 is a copy of repetition 1");
}

// The best repetition three times, each with a number of its own that means nothing.
TEST(Copies, AreFoundBesideAnotherKeyAndAnotherDistance) {
	Json row = timed_row(8, {1000, 1000});
	row["repetitions"][0]["note"] = 1;
	row["repetitions"][1]["core_to_core_ns"] = 97.001;
	EXPECT_EQ(reason_of_last({row}), "repetition 2 is a copy of repetition 1");
}

TEST(Copies, AreFoundInAllRowsAndInThoseApart) {
	EXPECT_EQ(reason_of_last({timed_row(8, {1000, 1001}), timed_row(16, {1002, 1001})}),
		"repetition 2 is a copy of repetition 2 of row 1");
	Json row = timed_row(8, {1000});
	row["apart"] = {{{"rate", 1}, {"elapsed_ns", 2000}, {"core_to_core_ns", 400}},
		{{"rate", 1}, {"elapsed_ns", 2000}, {"core_to_core_ns", 401}}};
	EXPECT_TRUE(reason_of_last({row}).ends_with("repetition 2 apart is a copy of repetition 1 apart"));
}

// One repetition three times, of whose times one was changed by a nanosecond.
TEST(Copies, AreFoundByTwoLongNumbersThatAreTheSame) {
	static constexpr std::string_view times[] = {"sender_ns", "counted_ns"};
	const Experiment experiment = with_latencies(times);
	const auto reason_of = [&](const Json& changes) {
		Json row = timed_row(8, {1, 2});
		for (Json& each : row["repetitions"])
			each.update({{"sender_ns", 483158468}, {"counted_ns", 483156816}, {"max_us", 72.5581}});
		row["repetitions"][1].update(changes);
		return judge(experiment, {.rows = {row}, .has_histograms = false})->front().reason;
	};
	const std::string copy = "repetition 2 is a copy of repetition 1";
	EXPECT_EQ(reason_of({{"sender_ns", 483158469}}), copy);
	EXPECT_EQ(reason_of({{"counted_ns", 483156817}}), copy);
	EXPECT_EQ(reason_of({{"max_us", 72.5582}}), copy);
	EXPECT_EQ(reason_of({{"sender_ns", 483158469}, {"max_us", 72.5582}}), "") << "one number may be the same by chance";
	EXPECT_EQ(reason_of({{"sender_ns", 1}, {"counted_ns", 1}}), "");
}

// The best repetition many times; each time and the longest latency had another number.
TEST(Copies, AreFoundByTheirPercentilesAndTimesThatAreNearlyTheSame) {
	static constexpr std::string_view times[] = {"sender_ns", "counted_ns"};
	const Experiment experiment = with_latencies(times);
	const auto reason_of = [&](const Json& changes) {
		Json row = timed_row(8, {1, 2});
		const Json both{{"p50_us", 1}, {"p90_us", 2}, {"p99_us", 3}, {"p999_us", 4}, {"p9999_us", 5},
			{"sender_ns", 483158468}, {"counted_ns", 483156816}, {"max_us", 72.5581}};
		for (Json& each : row["repetitions"]) each.update(both);
		row["repetitions"][1].update({{"sender_ns", 483158505}, {"counted_ns", 483156847}, {"max_us", 72.5591}});
		row["repetitions"][1].update(changes);
		return judge(experiment, {.rows = {row}, .has_histograms = false})->front().reason;
	};
	EXPECT_EQ(reason_of(Json::object()), "repetition 2 has the percentiles of repetition 1 and nearly its times");
	EXPECT_EQ(
		reason_of({{"sender_ns", 483206783}}), "repetition 2 has the percentiles of repetition 1 and nearly its times");
	EXPECT_EQ(reason_of({{"sender_ns", 483206785}}), "") << "a ten-thousandth more";
	EXPECT_EQ(reason_of({{"counted_ns", 483108400}}), "") << "a ten-thousandth less";
	for (const char* each : {"p50_us", "p90_us", "p99_us", "p999_us", "p9999_us"}) {
		EXPECT_EQ(reason_of({{each, 2.5}}), "") << each;
		EXPECT_EQ(reason_of({{each, nullptr}}), "") << each;
	}
}

// Few latencies have the same percentiles by chance.
TEST(Copies, AreNotFoundByPercentilesOfWhichTwoAreTheSame) {
	const Experiment experiment = with_latencies(sums.times);
	Json row = timed_row(8, {12345, 12346});
	for (Json& each : row["repetitions"])
		each.update({{"p50_us", 1}, {"p90_us", 2}, {"p99_us", 3}, {"p999_us", 4}, {"p9999_us", 4}});
	EXPECT_EQ(judge(experiment, {.rows = {row}, .has_histograms = false})->front().reason, "");
	for (Json& each : row["repetitions"]) each["p9999_us"] = 5;
	EXPECT_NE(judge(experiment, {.rows = {row}, .has_histograms = false})->front().reason, "");
}

// Short numbers are often the same, and a time that stands there twice is one.
TEST(Copies, AreNotFoundByNumbersOfFewDigits) {
	static constexpr std::string_view times[] = {"a_ns", "b_ns", "c_ns"};
	Experiment experiment = sums;
	experiment.times = times;
	const auto reason_of = [&](double a, double b) {
		Json row = timed_row(8, {1, 2});
		for (Json& each : row["repetitions"]) each.update({{"a_ns", a}, {"b_ns", b}});
		row["repetitions"][0]["c_ns"] = 1;
		row["repetitions"][1]["c_ns"] = 2;
		return judge(experiment, {.rows = {row}})->front().reason;
	};
	const std::string copy = "repetition 2 is a copy of repetition 1";
	EXPECT_EQ(reason_of(123'456, 234'567), copy);
	EXPECT_EQ(reason_of(123'456, 23'456), "");
	EXPECT_EQ(reason_of(123'456, 0.000'234'567), copy);
	EXPECT_EQ(reason_of(123'456, 0.000'023'456), "");
	EXPECT_EQ(reason_of(123'456, 23'456e7), "") << "zeros at the end are no digits";
	EXPECT_EQ(reason_of(123'456, 1.234'567e300), copy);
	EXPECT_EQ(reason_of(123'456, 123'456), "");
}

TEST(Copies, AreNotRepetitionsThatTookNoTime) { EXPECT_EQ(reason_of_last({timed_row(8, {0, 0})}), ""); }

TEST(Copies, AreRepetitionsWithTheSameHistogramOfManyBuckets) {
	const Experiment experiment = with_latencies(sums.times);
	Json row = timed_row(8, {1000, 1001});
	Histogram histogram;
	for (std::uint64_t i = 1; i < 19; ++i) histogram.record(i);
	const auto reason = [&] {
		for (Json& each : row["repetitions"]) each["latency_ns"] = to_json(histogram);
		return judge(experiment, {.rows = {row}})->front().reason;
	};
	EXPECT_EQ(reason(), "");
	histogram.record(90);
	histogram.record(91);
	EXPECT_EQ(reason(), "repetition 2 is a copy of repetition 1");
}

TEST(Histograms, AreOnlyMissingInCsv) {
	const Experiment experiment = with_latencies(sums.times);
	Json row = timed_row(8, {1000});
	row["repetitions"][0]["p90_us"] = 7;
	EXPECT_EQ(judge(experiment, {.rows = {row}})->front().reason,
		"repetition 1: there is no histogram latency_ns of its latencies");
	EXPECT_EQ(judge(experiment, {.rows = {row}, .has_histograms = false})->front().reason, "");
}

}  // namespace
}  // namespace verbena::bench

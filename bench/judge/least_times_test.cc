// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/least_times.h"

#include <gtest/gtest.h>

namespace verbena::bench {
namespace {

Verdict of_answers(double ns, const Json& repetition) {
	Findings findings;
	examine_answers(repetition, {}, ns, "echoes", findings);
	return findings.verdict();
}

// Latencies of 0 switched Little's law off, and any rate was valid.
TEST(LeastTimes, NothingTakesNoTime) {
	EXPECT_EQ(of_answers(0, Json::object()).validity, Validity::invalid);
	EXPECT_EQ(of_answers(0, {{"round_trip_ns", 100}}).reason, "echoes that took no time");
	EXPECT_EQ(of_answers(1, Json::object()).validity, Validity::valid);
}

// All times of a table were divided by a thousand.
TEST(LeastTimes, AnAnswerTakesARoundTripOfACacheLine) {
	const Json repetition{{"rtt_before_ns", 150}, {"rtt_after_ns", 120}};
	EXPECT_EQ(of_answers(80, repetition).validity, Validity::valid);
	EXPECT_EQ(of_answers(79, repetition).validity, Validity::suspect);
	EXPECT_EQ(of_answers(15, repetition).validity, Validity::suspect);
	EXPECT_EQ(of_answers(14.9, repetition).validity, Validity::invalid);
	EXPECT_EQ(of_answers(0.5, repetition).validity, Validity::invalid);
	EXPECT_EQ(of_answers(14.9, repetition).reason,
		"echoes of 14.9 ns, but a cache line takes 120 ns to the other process and back");
}

// The percentiles were those of another machine, and the longest made up for the mean.
TEST(LeastTimes, TheMedianOfAnswersTakesARoundTripToo) {
	const auto with_median = [](double p50_us) {
		return of_answers(2000, {{"round_trip_ns", 96}, {"p50_us", p50_us}});
	};
	EXPECT_EQ(with_median(0.064).validity, Validity::valid);
	EXPECT_EQ(with_median(0.063).validity, Validity::suspect);
	EXPECT_EQ(with_median(0.001).validity, Validity::invalid);
	Findings of_milliseconds;
	examine_answers({{"round_trip_ns", 96}, {"echo_p50_ms", 0.001}},
		{.prefix = "echo_", .suffix = "_ms", .unit_ns = 1e6}, 2000, "echoes", of_milliseconds);
	EXPECT_EQ(of_milliseconds.verdict().reason, "");
}

TEST(LeastTimes, AWindowIsAnsweredOnceInARoundTrip) {
	const auto of_messages = [](double messages) {
		Findings findings;
		examine_round_trips({{"round_trip_ns", 100}}, messages, 4, 100'000, findings);
		return findings.verdict();
	};
	EXPECT_EQ(of_messages(6000).validity, Validity::valid);
	EXPECT_EQ(of_messages(6001).validity, Validity::suspect);
	EXPECT_EQ(of_messages(32'000).validity, Validity::suspect);
	EXPECT_EQ(of_messages(32'001).validity, Validity::invalid);
	EXPECT_EQ(of_messages(32'001).reason,
		"32001 messages in 0.100 ms, of which 4 were under way, but a cache line takes 100 ns");
}

// The processors did something else while this round trip was measured.
TEST(LeastTimes, ADistanceOfMicrosecondsIsNone) {
	EXPECT_EQ(of_answers(200, {{"core_to_core_ns", 53'000}}).validity, Validity::valid);
	EXPECT_EQ(of_answers(200, {{"core_to_core_ns", 1000.5}}).validity, Validity::valid);
	EXPECT_EQ(of_answers(200, {{"core_to_core_ns", 1000}}).validity, Validity::suspect);
	EXPECT_EQ(of_answers(20, {{"rtt_before_ns", 53'000}, {"rtt_after_ns", 100}}).validity, Validity::suspect);
}

TEST(LeastTimes, NothingIsCountedMoreThanOnceANanosecond) {
	const auto found = [](double count, double most) {
		Findings findings;
		examine_pace(count, "frames", 2e6, findings, most);
		return findings.verdict().reason;
	};
	EXPECT_EQ(found(2e6, 1), "");
	EXPECT_EQ(found(2'000'001, 1), "2000001 frames in 2.00 ms are more than 1 a nanosecond");
	EXPECT_EQ(found(4e8, bytes_per_ns_most), "");
	EXPECT_NE(found(4e8 + 1, bytes_per_ns_most), "");
	EXPECT_EQ(found(400'000, messages_per_ns_most), "");
	EXPECT_EQ(found(400'001, messages_per_ns_most), "400001 frames in 2.00 ms are more than 0.2 a nanosecond");
}

}  // namespace
}  // namespace verbena::bench

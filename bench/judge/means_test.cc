// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/means.h"

#include <gtest/gtest.h>

namespace verbena::bench {
namespace {

TEST(Means, LieWithinTheBoundsOfThePercentiles) {
	Histogram latency;
	for (std::uint64_t i = 1; i <= 10'000; ++i) latency.record(i * 100);
	Json row;
	add_latency(row, latency, {});
	const auto judged_mean = [&](double mean_us) {
		Findings findings;
		examine_mean(row, mean_us, {}, findings);
		return findings.verdict().reason;
	};
	EXPECT_EQ(judged_mean(500.05), "") << "the true mean";
	EXPECT_TRUE(judged_mean(900).starts_with("a mean of 900 us, but p50_us and above give"));
	EXPECT_NE(judged_mean(200), "");
	// Percentiles above the median that were set to it.
	for (const char* each : {"p90_us", "p99_us", "p999_us", "p9999_us", "max_us"}) row[each] = row["p50_us"];
	EXPECT_EQ(judged_mean(500.05), "");
	EXPECT_NE(judged_mean(510), "");
	row.erase("max_us");
	EXPECT_EQ(judged_mean(510), "");
	EXPECT_EQ(judged_mean(200), "a mean of 200 us, but p50_us and above give 248 to any us");
	Findings findings;
	examine_maximum(row, {}, findings);
	EXPECT_EQ(findings.verdict().reason, "there is no max_us");
}

TEST(Means, HaveTheUnitOfTheirColumns) {
	Findings findings;
	examine_mean({{"echo_p50_ms", 2}, {"echo_max_ms", 3}}, 4, {.prefix = "echo_", .suffix = "_ms"}, findings);
	EXPECT_EQ(findings.verdict().reason, "a mean of 4.00 ms, but echo_p50_ms and above give 0.984 to 2.50 ms");
}

}  // namespace
}  // namespace verbena::bench

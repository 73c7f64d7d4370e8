// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/processor_time.h"

#include <gtest/gtest.h>

namespace verbena::bench {
namespace {

std::string judged_time(const Environment& environment, double used_s, std::uint64_t operations = 1000) {
	Findings findings;
	examine_processor_time(environment, {.used_s = used_s, .elapsed_s = 1, .operations = operations}, findings);
	return findings.verdict().reason;
}

TEST(ProcessorTime, IsAtMostThatOfTheCores) {
	EXPECT_EQ(judged_time({{"cores", "2, not pinned"}}, 1.9), "");
	EXPECT_EQ(judged_time({{"cores", "2, not pinned"}}, 1e6), "1000000 s of processor time in 1.00 s on 2 cores");
	EXPECT_EQ(judged_time({}, 1e6), "") << "a table without an environment";
}

TEST(ProcessorTime, IsNotNextToNoneForManyOperations) {
	EXPECT_EQ(judged_time({{"cores", "2"}}, 1e-9, 20'000), "0.00000000100 s of processor time for 20000 operations");
	EXPECT_EQ(judged_time({{"cores", "2"}}, 0, 19'999), "");
}

TEST(ProcessorTime, NeedsTheNumberOfCoresInATableOfOurs) {
	for (const char* cores : {"not pinned", "", "inf", "1000000"})
		EXPECT_EQ(judged_time({{"commit", "1234"}, {"cores", cores}}, 1),
			"the environment's cores '" + std::string(cores) + "' begin with no number of cores");
}

}  // namespace
}  // namespace verbena::bench

// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/process_use.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>

namespace verbena::scale {
namespace {

TEST(ProcessUse, HasTheTimeInTheProgramAndTheTimeInTheKernel) {
	const std::string line = "7 (a b) c) R 1 2 3 4 -1 6 7 8 9 10 150 50 13 14";
	EXPECT_DOUBLE_EQ(cpu_seconds_in(line), 200.0 / static_cast<double>(sysconf(_SC_CLK_TCK)));
	EXPECT_EQ(cpu_seconds_in(""), 0);
}

TEST(ProcessUse, HasTheTimeOfAThreadThatStillRuns) {
	const auto own_seconds = [] {
		timespec own{};
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
		return static_cast<double>(own.tv_sec) + static_cast<double>(own.tv_nsec) / 1e9;
	};
	while (own_seconds() < 0.1) {}
	// The kernel brings the file up to date with each tick of its timer.
	EXPECT_GE(use_of_process(getpid()).cpu_seconds, 0.07);
}

TEST(ProcessUse, HasMemoryAndThreads) {
	const ProcessUse use = use_of_process(getpid());
	EXPECT_GT(use.resident_bytes, 1u << 20);
	EXPECT_GE(use.peak_resident_bytes, use.resident_bytes);
	EXPECT_GE(use.threads, 1u);
}

TEST(ProcessUse, OfNoProcessIsZero) { EXPECT_EQ(use_of_process(-1).resident_bytes, 0u); }

}  // namespace
}  // namespace verbena::scale

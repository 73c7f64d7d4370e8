// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/fault_report.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace verbena::kv {
namespace {

TEST(FaultReportDeathTest, AFaultEndsTheProcessWithTheSentence) {
	GTEST_FLAG_SET(death_test_style, "threadsafe");
	const auto fault = [](int signal) {
		const FaultReport report("the folder is damaged");
		raise(signal);
	};
	for (const int signal : {SIGSEGV, SIGBUS, SIGABRT})
		EXPECT_EXIT(fault(signal), ::testing::ExitedWithCode(1), "the folder is damaged");
}

TEST(FaultReportDeathTest, AfterItsEndFaultsAreAsBefore) {
	GTEST_FLAG_SET(death_test_style, "threadsafe");
	const auto fault = [] {
		{ const FaultReport report("the folder is damaged"); }
		std::abort();
	};
	EXPECT_EXIT(fault(), ::testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace verbena::kv

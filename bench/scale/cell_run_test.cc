// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/cell_run.h"

#include <gtest/gtest.h>

namespace verbena::scale {
namespace {

TEST(IdleTime, EndsALittleBeforeTheClientsLeave) {
	EXPECT_TRUE(is_idle_time(1'000, 1'000, 100));
	EXPECT_TRUE(is_idle_time(1'090, 1'000, 100));
	EXPECT_FALSE(is_idle_time(1'091, 1'000, 100));
}

TEST(IdleTime, IsThereOnlyIfClientsHoldTheirConnections) {
	EXPECT_FALSE(is_idle_time(1'000, 1'000, 0));
	EXPECT_TRUE(is_idle_time(1'000, 1'000, 1));
}

}  // namespace
}  // namespace verbena::scale

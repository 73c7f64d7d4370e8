// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/flood_guard.h"

#include <gtest/gtest.h>

namespace verbena::engine {
namespace {

constexpr Nanoseconds start = 100 * second;

TEST(FloodGuard, AFewStrangersCauseNoPause) {
	FloodGuard guard;
	for (Nanoseconds now = start; now < start + 10 * second; now += second / 100)
		ASSERT_EQ(guard.pause_after(1, 0, now), 0u);
}

TEST(FloodGuard, VisitsWithoutStrangersCauseNoPauseHoweverMany) {
	FloodGuard guard;
	for (int i = 0; i < 10'000; ++i) ASSERT_EQ(guard.pause_after(0, 0, start), 0u);
}

TEST(FloodGuard, AFloodMakesPausesThatGrowToALimit) {
	FloodGuard guard;
	Nanoseconds now = start, last = 0;
	for (int i = 0; i < 20; ++i) {
		const Nanoseconds pause = guard.pause_after(128, 0, now);
		ASSERT_GE(pause, FloodGuard::pause_min);
		ASSERT_LE(pause, FloodGuard::pause_max);
		ASSERT_GE(pause, last);
		now += last = pause;
	}
	EXPECT_EQ(last, FloodGuard::pause_max);
}

TEST(FloodGuard, PausesGrowWithTheNumberOfFloodedSockets) {
	FloodGuard one, ten;
	EXPECT_EQ(10 * one.pause_after(128, 0, start), ten.pause_after(128, 9, start));
}

TEST(FloodGuard, AfterAFloodStrangersAreRefusedAtOnceAgain) {
	FloodGuard guard;
	Nanoseconds now = start;
	for (int i = 0; i < 20; ++i) now += guard.pause_after(128, 0, now);
	EXPECT_EQ(guard.pause_after(0, 0, now += second), 0u);
	EXPECT_EQ(guard.pause_after(FloodGuard::burst, 0, now), 0u);
	EXPECT_EQ(guard.pause_after(1, 0, now), FloodGuard::pause_min) << "the first pause of a flood is short";
}

}  // namespace
}  // namespace verbena::engine

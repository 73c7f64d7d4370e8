// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/watch.h"

#include <gtest/gtest.h>

namespace verbena::engine {
namespace {

// A process whose packets had to wait twice.
Watch watched(Nanoseconds now) {
	Watch watch;
	watch.tick(true, now);
	watch.tick(true, now);
	EXPECT_TRUE(watch.watching());
	return watch;
}

TEST(Watch, AProgramThatTakesInItsPacketsIsNotWatched) {
	Watch watch;
	for (int i = 0; i < 1000; ++i) watch.tick(false, i * ms);
	EXPECT_FALSE(watch.watching());
}

TEST(Watch, OneLateTickInEightIsNoReasonToWatch) {
	Watch watch;
	for (int i = 0; i < 1000; ++i) watch.tick(i % 8 == 0, i * ms);
	EXPECT_FALSE(watch.watching());
}

TEST(Watch, TwoTicksThatFoundWaitingPacketsAreAReason) {
	Watch watch;
	watch.tick(true, 0);
	for (int i = 0; i < 6; ++i) watch.tick(false, 0);
	EXPECT_FALSE(watch.watching());
	watch.tick(true, 0);
	EXPECT_TRUE(watch.watching());
}

// As in ib_write_lat over UDP: one wake for the acknowledgement, which the program takes in itself,
// and one for the peer's write, which it does not.
TEST(Watch, AProgramThatNeedsHalfOfTheWakesStaysWatchedForItsTime) {
	Watch watch = watched(0);
	Nanoseconds now = 0;
	for (int i = 1; (now += 20 * us) < Spell::first; ++i) {
		watch.wake(i % 2 == 0, now);
		ASSERT_TRUE(watch.watching());
	}
	watch.wake(true, now);
	EXPECT_FALSE(watch.watching());
}

TEST(Watch, AProgramThatPollsAgainIsNotWatchedAfterThirtyTwoWakes) {
	Watch watch = watched(0);
	for (int i = 1; i < 32; ++i) watch.wake(false, i * 20 * us);
	EXPECT_TRUE(watch.watching());
	watch.wake(false, 640 * us);
	EXPECT_FALSE(watch.watching());
	// The ticks before it was watched do not count again.
	watch.tick(true, ms);
	EXPECT_FALSE(watch.watching());
}

// The time until the watch ends if every wake is needed.
Nanoseconds stay(Watch& watch, Nanoseconds& now) {
	for (int i = 0; i < 2; ++i) watch.tick(true, now += 50 * us);
	const Nanoseconds begin = now;
	for (; watch.watching(); now += 20 * us) watch.wake(true, now);
	return now - begin;
}

TEST(Watch, AProgramThatNeedsItAgainAndAgainIsWatchedLonger) {
	Watch watch;
	Nanoseconds now = 0;
	now = 1'000 * ms;
	EXPECT_LE(stay(watch, now), 2 * ms);
	EXPECT_GE(stay(watch, now), 2 * ms);
	EXPECT_GE(stay(watch, now), 4 * ms);
	for (int i = 0; i < 10; ++i) stay(watch, now);
	EXPECT_LE(stay(watch, now), 1001 * ms);
	now += 5'000 * ms;
	EXPECT_LE(stay(watch, now), 2 * ms);
}

// As in ib_write_lat between two processes of a host.
TEST(Watch, FourKicksThatWereNeededWithinTwoMillisecondsAreAReason) {
	Watch watch;
	for (int i = 1; i < 4; ++i) watch.needed_kick(1'000 * ms + i * 130 * us);
	EXPECT_FALSE(watch.watching());
	watch.needed_kick(1'000 * ms + 520 * us);
	EXPECT_TRUE(watch.watching());
}

// A program that was preempted is kicked once in a millisecond.
TEST(Watch, AKickInEachMillisecondIsNoReason) {
	Watch watch;
	for (int i = 1; i < 1000; ++i) watch.needed_kick(i * ms);
	EXPECT_FALSE(watch.watching());
}

TEST(Watch, TheKicksBeforeItWatchedDoNotCountAgain) {
	Watch watch;
	for (int i = 1; i <= 4; ++i) watch.needed_kick(ms + i * us);
	ASSERT_TRUE(watch.watching());
	watch.expire(3 * ms);
	ASSERT_FALSE(watch.watching());
	watch.needed_kick(3 * ms);
	EXPECT_FALSE(watch.watching());
}

}  // namespace
}  // namespace verbena::engine

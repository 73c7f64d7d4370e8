// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/ip_habit.h"

#include <gtest/gtest.h>

namespace verbena::wire {
namespace {

constexpr IpFields set(std::uint16_t id) { return {.id = id, .dont_fragment = true}; }
constexpr IpFields clear(std::uint16_t id) { return {.id = id, .dont_fragment = false}; }

TEST(IpHabit, TheFirstPacketDecidesTheDfBit) {
	IpHabit fragmentable, ours;
	EXPECT_TRUE(fragmentable.accept(clear(0x718c)));
	EXPECT_FALSE(fragmentable.accept(set(0x718d)));
	EXPECT_TRUE(fragmentable.accept(clear(0x718e)));
	EXPECT_TRUE(ours.accept(set(0)));
	EXPECT_FALSE(ours.accept(clear(0)));
}

TEST(IpHabit, TheGuessIsThePositionWithTheDfBitThatTheSenderHas) {
	IpHabit habit;
	EXPECT_EQ(habit.guess(3), set(3));
	habit.accept(clear(9));
	EXPECT_EQ(habit.guess(3), clear(3));
}

TEST(IpHabit, ASenderThatNumbersItsBatchesIsHeldToThat) {
	IpHabit habit;
	for (int i = 0; i < IpHabit::packets_until_batches_are_known; ++i)
		ASSERT_TRUE(habit.accept(set(static_cast<std::uint16_t>(i % IpHabit::batch_ids))));
	EXPECT_FALSE(habit.accept(set(IpHabit::batch_ids)));
	EXPECT_TRUE(habit.accept(set(IpHabit::batch_ids - 1)));
}

TEST(IpHabit, ASenderThatCountsFromZeroIsNotTakenForOneThatNumbersBatches) {
	IpHabit habit;
	for (std::uint32_t id = 0; id < 3 * 0x10000; ++id) ASSERT_TRUE(habit.accept(set(static_cast<std::uint16_t>(id))));
}

TEST(IpHabit, ASenderThatHasChangedIsLearnedAnew) {
	IpHabit habit;
	habit.accept(set(1));
	for (int i = 0; i < IpHabit::refused_until_forgotten; ++i) ASSERT_FALSE(habit.accept(clear(1)));
	EXPECT_TRUE(habit.accept(clear(1)));
	EXPECT_FALSE(habit.accept(set(1)));
}

TEST(IpHabit, ADamagedPacketNowAndThenChangesNothing) {
	IpHabit habit;
	for (int i = 0; i < 10 * IpHabit::refused_until_forgotten; ++i) {
		EXPECT_TRUE(habit.accept(set(0x1234)));
		EXPECT_FALSE(habit.accept(clear(0x1234)));
	}
}

}  // namespace
}  // namespace verbena::wire

// SPDX-License-Identifier: Apache-2.0
#include "nic/faults/fate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace verbena::faults {
namespace {

std::set<std::uint32_t> lost(const Faults& faults, std::uint64_t seed, std::uint32_t packets = 10'000) {
	std::set<std::uint32_t> numbers;
	for (std::uint32_t n = 0; n < packets; ++n)
		if (fate_of(faults, seed, {.queue_pair = 1, .number = n, .opcode = 4}, 0).lost) numbers.insert(n);
	return numbers;
}

TEST(Fate, TheSameSeedLosesTheSamePackets) {
	const Faults faults{.loss = 0.01};
	EXPECT_EQ(lost(faults, 42), lost(faults, 42));
	EXPECT_NE(lost(faults, 42), lost(faults, 43));
}

TEST(Fate, AsManyPacketsMeetAFaultAsItsProbabilitySays) {
	const std::size_t count = lost({.loss = 0.01}, 42, 100'000).size();
	EXPECT_GT(count, 900u);
	EXPECT_LT(count, 1100u);
	EXPECT_EQ(lost({.loss = 1}, 42, 1000).size(), 1000u);
	EXPECT_TRUE(lost({}, 42, 1000).empty());
}

TEST(Fate, ALargerProbabilityLosesTheSamePacketsAndMore) {
	const auto few = lost({.loss = 0.01}, 42), many = lost({.loss = 0.02}, 42);
	EXPECT_TRUE(std::ranges::includes(many, few));
}

TEST(Fate, OtherFaultsDoNotChangeWhichPacketsAreLost) {
	EXPECT_EQ(lost({.loss = 0.01}, 42), lost({.loss = 0.01, .duplicate = 0.5, .corrupt = 0.5, .delay = 7}, 42));
}

TEST(Fate, APacketThatIsSentAgainHasANewDraw) {
	const Faults faults{.loss = 0.5};
	const Identity packet{.queue_pair = 1, .number = 9, .opcode = 4};
	std::set<bool> fates;
	for (std::uint32_t times = 0; times < 64; ++times) fates.insert(fate_of(faults, 42, packet, times).lost);
	EXPECT_EQ(fates.size(), 2u);
}

TEST(Fate, JitterStaysAroundTheDelay) {
	const Faults faults{.delay = 1000, .jitter = 300};
	Nanoseconds least = never, most = 0;
	for (std::uint32_t n = 0; n < 10'000; ++n) {
		const Nanoseconds delay = fate_of(faults, 42, {.queue_pair = 1, .number = n}, 0).delay;
		least = std::min(least, delay);
		most = std::max(most, delay);
	}
	EXPECT_GE(least, 700u);
	EXPECT_LT(least, 710u);
	EXPECT_LE(most, 1300u);
	EXPECT_GT(most, 1290u);
}

TEST(Fate, AManagementDatagramBreaksNoQueuePair) {
	EXPECT_FALSE(fate_of({.qp_error = 1}, 42, {.queue_pair = 0}, 0).breaks_queue_pair);
	EXPECT_TRUE(fate_of({.qp_error = 1}, 42, {.queue_pair = 1}, 0).breaks_queue_pair);
}

TEST(Fate, CorruptionFlipsAtMostThreeBitsAndIsRepeatable) {
	for (std::uint64_t bits = 0; bits < 1000; ++bits) {
		std::vector<std::byte> packet(32), again(32);
		corrupt(packet, bits);
		corrupt(again, bits);
		EXPECT_EQ(packet, again);
		int flipped = 0;
		for (const std::byte each : packet) flipped += std::popcount(std::to_integer<unsigned>(each));
		EXPECT_LE(flipped, 3);
	}
}

TEST(Repetitions, CountsEachPacketAlone) {
	Repetitions repetitions;
	const Identity first{.queue_pair = 1, .number = 1}, second{.queue_pair = 1, .number = 2};
	EXPECT_EQ(repetitions.count(first), 0u);
	EXPECT_EQ(repetitions.count(first), 1u);
	EXPECT_EQ(repetitions.count(second), 0u);
	EXPECT_EQ(repetitions.count(first), 2u);
}

// Otherwise a packet that its seed loses at first would be lost each time.
TEST(Repetitions, APacketOfTheWindowIsNotForgotten) {
	Repetitions repetitions;
	constexpr std::uint32_t window = 2048;
	for (std::uint32_t begin = 0; begin < 100'000; begin += window) {
		for (std::uint32_t n = 0; n < window; ++n) repetitions.count({.queue_pair = 1, .number = begin + n});
		for (std::uint32_t n = 0; n < window; ++n)
			ASSERT_EQ(repetitions.count({.queue_pair = 1, .number = begin + n}), 1u) << begin + n;
	}
}

}  // namespace
}  // namespace verbena::faults

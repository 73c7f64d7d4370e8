// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <gtest/gtest.h>
#include <set>
#include <vector>

namespace verbena {
namespace {

TEST(SplitMix, GivesThePublishedSequence) {
	std::uint64_t state = 1234567;
	EXPECT_EQ(split_mix(state), 6457827717110365317u);
	EXPECT_EQ(split_mix(state), 3203168211198807973u);
	EXPECT_EQ(split_mix(state), 9817491932198370423u);
}

TEST(Random, IsTheSameAgainFromTheSameSeed) {
	Random one(7), again(7), other(8);
	std::vector<std::uint64_t> first, second, third;
	for (int i = 0; i < 100; ++i) {
		first.push_back(one());
		second.push_back(again());
		third.push_back(other());
	}
	EXPECT_EQ(first, second);
	EXPECT_NE(first, third);
}

TEST(Random, BelowReachesEveryValueAndNoMore) {
	Random random(1);
	std::set<std::uint64_t> seen;
	for (int i = 0; i < 1000; ++i) seen.insert(random.below(10));
	EXPECT_EQ(seen.size(), 10u);
	EXPECT_EQ(*seen.rbegin(), 9u);
	EXPECT_EQ(random.below(1), 0u);
}

TEST(Random, AChanceHappensAboutAsOftenAsItSays) {
	Random random(1);
	int happened = 0;
	for (int i = 0; i < 100'000; ++i) happened += random.chance(0.05);
	EXPECT_NEAR(happened, 5000, 300);
	EXPECT_FALSE(random.chance(0));
	EXPECT_TRUE(random.chance(1));
}

TEST(SecureRandom, FillsEveryByte) {
	std::vector<std::byte> bytes(1000);
	std::set<std::byte> seen;
	secure_random(bytes);
	for (const std::byte b : std::span(bytes).last(500)) seen.insert(b);
	EXPECT_GT(seen.size(), 100u);
	secure_random({});
}

TEST(SecureRandom, DoesNotRepeat) { EXPECT_NE(secure_random<std::uint64_t>(), secure_random<std::uint64_t>()); }

}  // namespace
}  // namespace verbena

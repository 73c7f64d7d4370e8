// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/state/ghosts.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace verbena::kv {
namespace {

// A well-mixed hash of a number.
std::uint64_t hash_of(std::uint64_t number) { return split_mix(number); }

TEST(Ghosts, AGhostIsTakenOnce) {
	Ghosts ghosts;
	EXPECT_FALSE(ghosts.take(hash_of(1)));
	ghosts.add(hash_of(1), 10);
	ghosts.add(hash_of(2), 10);
	EXPECT_TRUE(ghosts.take(hash_of(1)));
	EXPECT_FALSE(ghosts.take(hash_of(1)));
	EXPECT_TRUE(ghosts.take(hash_of(2)));
}

TEST(Ghosts, TheLastOnesAreRememberedAndOlderOnesAreNot) {
	for (const std::size_t remembered : {1u, 100u, 511u, 512u, 10'000u, 100'000u}) {
		Ghosts ghosts;
		const std::uint64_t added = remembered * 5;
		for (std::uint64_t i = 0; i < added; ++i) ghosts.add(hash_of(i), remembered);
		const std::uint64_t edge = remembered / 256 + 1;  // the time of a ghost is not exact
		std::size_t found = 0, older = 0;
		for (std::uint64_t i = added - remembered + edge; i < added; ++i) found += ghosts.take(hash_of(i));
		for (std::uint64_t i = 0; i < added - remembered - edge; ++i) older += ghosts.take(hash_of(i));
		EXPECT_GE(found * 100, (remembered - std::min<std::size_t>(remembered, edge)) * 98) << remembered;
		EXPECT_LE(older * 1000, remembered) << remembered;
	}
}

TEST(Ghosts, AHashThatWasNeverAddedIsHardlyEverFound) {
	Ghosts ghosts;
	for (std::uint64_t i = 0; i < 500'000; ++i) ghosts.add(hash_of(i), 100'000);
	std::size_t found = 0;
	for (std::uint64_t i = 1'000'000; i < 2'000'000; ++i) found += ghosts.take(hash_of(i));
	EXPECT_LT(found, 50u);
}

TEST(Ghosts, TheyTakeTheBytesThatWereAnnounced) {
	Ghosts ghosts;
	EXPECT_EQ(ghosts.bytes(), 0u);
	for (std::uint64_t i = 0; i < 100'000; ++i) {
		ghosts.add(hash_of(i), i + 1);
		ASSERT_LE(ghosts.bytes(), Ghosts::bytes_for(i + 1));
	}
	EXPECT_LT(Ghosts::bytes_for(1'000'000), 6'100'000u) << "6 bytes each";
}

TEST(Ghosts, MoreRoomThanBeforeForgetsAllAndLessRoomForgetsTheOlder) {
	Ghosts ghosts;
	for (std::uint64_t i = 0; i < 1000; ++i) ghosts.add(hash_of(i), 1000);
	ghosts.add(hash_of(1000), 100);
	EXPECT_FALSE(ghosts.take(hash_of(500)));
	EXPECT_TRUE(ghosts.take(hash_of(950)));
	ghosts.add(hash_of(1001), 2000);
	EXPECT_FALSE(ghosts.take(hash_of(990)));
	EXPECT_TRUE(ghosts.take(hash_of(1001)));
}

}  // namespace
}  // namespace verbena::kv

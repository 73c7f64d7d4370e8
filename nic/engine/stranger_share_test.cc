// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/stranger_share.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace verbena::engine {
namespace {

// The shares of `users` users, if each in turn takes all that it can.
std::vector<std::size_t> taken_by(std::size_t users, std::size_t all) {
	std::vector<std::size_t> taken;
	for (std::size_t i = 0; i < users; ++i) {
		const std::size_t others = std::accumulate(taken.begin(), taken.end(), std::size_t{0});
		std::size_t mine = 0;
		while (has_room_for_stranger({mine, others}, all)) ++mine;
		taken.push_back(mine);
	}
	return taken;
}

TEST(StrangerShare, OneUserLeavesHalfToTheOthers) {
	const std::vector<std::size_t> expected{32, 16, 8, 4, 2, 1, 0};
	EXPECT_EQ(taken_by(7, 64), expected);
	EXPECT_EQ(taken_by(7, strangers_max), expected);
}

TEST(StrangerShare, GrowsAgainWhenOthersLeave) {
	EXPECT_FALSE(has_room_for_stranger({16, 32}, 64));
	EXPECT_TRUE(has_room_for_stranger({16, 30}, 64));
	EXPECT_TRUE(has_room_for_stranger({31, 0}, 64));
	EXPECT_FALSE(has_room_for_stranger({32, 0}, 64));
}

TEST(StrangerShare, IsNothingWhenAllIsTaken) {
	EXPECT_FALSE(has_room_for_stranger({0, 64}, 64));
	EXPECT_FALSE(has_room_for_stranger({0, 100}, 64));
}

}  // namespace
}  // namespace verbena::engine

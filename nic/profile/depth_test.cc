// SPDX-License-Identifier: Apache-2.0
#include "nic/profile/depth.h"

#include <gtest/gtest.h>

namespace verbena::profile {
namespace {

const Limits nic = limits_of(own());
const Limits e810 = limits_of(*find("e810"));

TEST(ProfileDepth, QueuesOfEntriesAreRoundedUpToAPowerOfTwo) {
	EXPECT_EQ(send_depth(nic, 1, 0).most, nic.max_qp_wr);
	EXPECT_EQ(send_depth(nic, 1, 0).granted(100), 128u);
	EXPECT_EQ(send_depth(nic, 1, 0).granted(nic.max_qp_wr), nic.max_qp_wr);
	EXPECT_EQ(receive_depth(nic, 1).granted(0), 1u);
}

TEST(ProfileDepth, TheWidestRequestsOfE810AreAsManyAsItReports) {
	EXPECT_EQ(send_depth(e810, e810.max_send_sge, 0).most, e810.max_qp_wr);
}

TEST(ProfileDepth, NarrowRequestsOfE810AreMore) {
	EXPECT_EQ(send_depth(e810, 1, 8).most, 32510u);
	EXPECT_EQ(send_depth(e810, 3, 39).most, 16255u);
	EXPECT_EQ(send_depth(e810, 1, 101).most, 8127u);
	EXPECT_EQ(receive_depth(e810, 1).most, 32767u);
}

TEST(ProfileDepth, E810KeepsUnitsForItself) {
	EXPECT_EQ(send_depth(e810, 1, 0).granted(100), 512u - 258);
	EXPECT_EQ(send_depth(e810, 1, 0).granted(300), 1024u - 258);
	EXPECT_EQ(send_depth(e810, 4, 0).granted(256), (2048u - 258) / 4);
	EXPECT_EQ(receive_depth(e810, 1).granted(100), 127u);
	EXPECT_EQ(receive_depth(e810, 1).granted(4096), 8191u);
}

TEST(ProfileDepth, AQueueHasAtLeastWhatWasAskedForAndAtMostTheLimit) {
	for (const std::uint32_t segments : {1u, 3u, 7u, 13u}) {
		const Depth depth = send_depth(e810, segments, 0);
		for (const std::uint32_t wanted : {0u, 1u, 127u, 128u, depth.most - 1, depth.most}) {
			EXPECT_GE(depth.granted(wanted), wanted) << segments;
			EXPECT_LE(depth.granted(wanted), depth.most) << segments;
		}
	}
}

}  // namespace
}  // namespace verbena::profile

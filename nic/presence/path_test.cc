// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/path.h"

#include <gtest/gtest.h>

using verbena::presence::may_be_ours;

TEST(Path, FoldersOfTheKernelsDevicesAreOurs) {
	EXPECT_TRUE(may_be_ours("/dev/infiniband"));
	EXPECT_TRUE(may_be_ours("/dev/infiniband/"));
	EXPECT_TRUE(may_be_ours("/dev/infiniband/uverbs3"));
	EXPECT_TRUE(may_be_ours("/sys/class/infiniband/vb_lo/ports/1/state"));
	EXPECT_TRUE(may_be_ours("/sys/class/infiniband_verbs"));
	EXPECT_TRUE(may_be_ours("/sys/class/infiniband_verbs/uverbs3/ibdev"));
	EXPECT_TRUE(may_be_ours("/sys/devices/virtual/infiniband/vb_lo"));
	EXPECT_TRUE(may_be_ours("/sys/devices/virtual/infiniband_verbs/uverbs3"));
}

TEST(Path, DoubledSlashesMakeNoDifference) {
	EXPECT_TRUE(may_be_ours("//dev//infiniband"));
	EXPECT_TRUE(may_be_ours("/sys///class/infiniband//vb_lo"));
}

TEST(Path, NeighboursAreNotOurs) {
	EXPECT_FALSE(may_be_ours("/dev/infinibandage"));
	EXPECT_FALSE(may_be_ours("/dev/infiniband_verbs"));
	EXPECT_FALSE(may_be_ours("/dev/null"));
	EXPECT_FALSE(may_be_ours("/sys/class/infiniband_mad/umad0"));
	EXPECT_FALSE(may_be_ours("/sys/class/infiniband_verbs2"));
	EXPECT_FALSE(may_be_ours("/sys/class/net/eth0"));
	EXPECT_FALSE(may_be_ours("/home/dev/infiniband"));
	EXPECT_FALSE(may_be_ours("/"));
}

TEST(Path, RelativePathThatEndsAFoldersNameMayBeOurs) {
	EXPECT_TRUE(may_be_ours("infiniband"));
	EXPECT_TRUE(may_be_ours("infiniband/vb_lo"));
	EXPECT_TRUE(may_be_ours("class/infiniband_verbs"));
	EXPECT_TRUE(may_be_ours("sys/class/infiniband"));
	EXPECT_TRUE(may_be_ours("dev/infiniband/uverbs1"));
	EXPECT_FALSE(may_be_ours("config"));
	EXPECT_FALSE(may_be_ours("dev/null"));
	EXPECT_FALSE(may_be_ours("./infiniband.txt"));
}

TEST(Path, NoPathAndTheEmptyPathAreNotOurs) {
	EXPECT_FALSE(may_be_ours(nullptr));
	EXPECT_FALSE(may_be_ours(""));
}

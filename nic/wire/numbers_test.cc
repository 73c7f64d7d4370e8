// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/numbers.h"

#include <gtest/gtest.h>

namespace verbena::wire {
namespace {

TEST(Psn24, IsTheNearestAbsoluteNumberWithTheseLowBits) {
	EXPECT_EQ(nearest(0x5000010, {0x000010}), 0x5000010u);
	EXPECT_EQ(nearest(0x5000010, {0x000020}), 0x5000020u);
	EXPECT_EQ(nearest(0x5000010, {0x00000f}), 0x500000fu);
}

TEST(Psn24, CrossesTheWrapInBothDirections) {
	EXPECT_EQ(nearest(0x5ffffff, {0x000001}), 0x6000001u);
	EXPECT_EQ(nearest(0x6000001, {0xffffff}), 0x5ffffffu);
}

TEST(Psn24, HalfOfTheCircleIsAheadAndHalfBehind) {
	EXPECT_EQ(nearest(0x5000000, {0x7fffff}), 0x57fffffu);
	EXPECT_EQ(nearest(0x5000000, {0x800000}), 0x4800000u);
}

}  // namespace
}  // namespace verbena::wire

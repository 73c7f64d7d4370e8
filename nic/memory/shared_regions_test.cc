// SPDX-License-Identifier: Apache-2.0
#include "nic/memory/shared_regions.h"

#include <gtest/gtest.h>

namespace verbena::memory {
namespace {

constexpr SharedFile one{.file = 11, .offset = 4096, .descriptor = 3}, two{.file = 12, .offset = 0, .descriptor = 4};

TEST(SharedRegions, FindsWhereInTheFileAnAddressLies) {
	SharedRegions regions;
	EXPECT_TRUE(regions.empty());
	regions.add(0x10000, 0x8000, one);
	regions.add(0x40000, 0x1000, two);
	EXPECT_EQ(regions.find(0x10000, 0x8000), one);
	const auto inside = regions.find(0x10100, 16);
	ASSERT_TRUE(inside);
	EXPECT_EQ(inside->offset, 4096u + 0x100);
	EXPECT_EQ(inside->file, 11u);
	EXPECT_EQ(regions.find(0x40000, 0x1000), two);
}

TEST(SharedRegions, FindsNothingThatIsNotWhollyInsideOneRegion) {
	SharedRegions regions;
	regions.add(0x10000, 0x8000, one);
	EXPECT_FALSE(regions.find(0xffff, 2));
	EXPECT_FALSE(regions.find(0x10000, 0x8001));
	EXPECT_FALSE(regions.find(0x17fff, 2));
	EXPECT_FALSE(regions.find(0x18000, 1));
	EXPECT_FALSE(regions.find(0x17fff, ~std::uint64_t{0}));
}

TEST(SharedRegions, RemovesOneOfTwoEqualRegions) {
	SharedRegions regions;
	regions.add(0x10000, 0x8000, one);
	regions.add(0x10000, 0x8000, one);
	regions.remove(0x10000, one);
	EXPECT_TRUE(regions.find(0x10000, 1));
	regions.remove(0x10000, two);
	EXPECT_TRUE(regions.find(0x10000, 1));
	regions.remove(0x10000, one);
	EXPECT_TRUE(regions.empty());
}

TEST(SharedRegions, ForgetsTheRegionsOnPagesThatHaveMoved) {
	SharedRegions regions;
	regions.add(0x10000, 0x8000, one);
	regions.add(0x18000, 0x1000, two);
	regions.remove_overlapping(0x17000, 0x18000);
	EXPECT_FALSE(regions.find(0x10000, 1));
	EXPECT_TRUE(regions.find(0x18000, 1));
}

}  // namespace
}  // namespace verbena::memory

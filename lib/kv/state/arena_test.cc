// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lib/kv/state/arena_fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

constexpr std::size_t mib = 1 << 20;

TEST(Arena, ABlockHasAtMostAnEighthMoreThanWasAskedFor) {
	for (std::size_t bytes = 1; bytes < 3 * mib; bytes += bytes / 50 + 1) {
		EXPECT_GE(Arena::block_size(bytes), bytes);
		EXPECT_LE(Arena::block_size(bytes), std::max(block_min, bytes + bytes / 8)) << bytes;
	}
}

TEST(Arena, ARunLeavesOverAtMostASixtyFourthOfItsPages) {
	std::size_t one_of_each = 0;
	for (const RunShape& shape : run_shapes) {
		const std::size_t all = shape.pages * Extents::page_bytes;
		EXPECT_LE(all - std::size_t{shape.blocks} * shape.block_bytes, all / 64) << shape.block_bytes;
		EXPECT_GE(shape.blocks, 8);
		one_of_each += all;
	}
	// A run with free blocks stays if no other run of its class has room for its blocks.
	EXPECT_LE(one_of_each, 4 * mib);
}

TEST(Arena, FreedPagesServeBlocksOfEverySize) {
	Blocks blocks(16 * mib);
	for (const std::size_t bytes : {mib, std::size_t{100}, std::size_t{40'000}, std::size_t{3000}, 5 * mib}) {
		unsigned number = 0;
		blocks.take_all(bytes, number);
		EXPECT_GE(number * bytes, 15 * mib * 7 / 8) << bytes;
		EXPECT_TRUE(blocks.all_right());
		EXPECT_STREQ(blocks.arena.broken(), nullptr);
		while (number > 0) blocks.give_back(--number);
		blocks.arena.flush();
		EXPECT_EQ(blocks.arena.in_use(), 0u);
		EXPECT_EQ(blocks.arena.free_pages(), 16 * mib / Extents::page_bytes);
	}
	EXPECT_EQ(blocks.memory.segments.size(), 1u);
}

TEST(Arena, BlocksAreMovedOutOfHalfEmptyRuns) {
	Blocks blocks(8 * mib);
	unsigned number = 0;
	blocks.take_all(100, number);
	for (unsigned i = 0; i < number; ++i)
		if (i % 4 != 0) blocks.give_back(i);
	for (unsigned i = 0; i < 5; ++i) EXPECT_TRUE(blocks.take(number + i, mib)) << "three quarters of 8 MiB are free";
	EXPECT_TRUE(blocks.all_right());
	EXPECT_GT(blocks.arena.counters().moved, 0u);
	EXPECT_STREQ(blocks.arena.broken(), nullptr);
}

TEST(Arena, GapsThatAreTooShortBecomeOne) {
	Blocks blocks(16 * mib);
	unsigned number = 0;
	blocks.take_all(mib / 8, number);
	// Each block is replaced by one that is a page shorter.
	for (unsigned i = 0; i < number; ++i) {
		blocks.give_back(i);
		ASSERT_TRUE(blocks.take(i, mib / 8 - Extents::page_bytes));
	}
	EXPECT_TRUE(blocks.take(number, 3 * mib / 8)) << "128 gaps of a page each";
	EXPECT_TRUE(blocks.all_right());
	EXPECT_STREQ(blocks.arena.broken(), nullptr);
}

TEST(Arena, BlocksThatMayNotBeMovedStayWhereTheyAre) {
	Blocks blocks(8 * mib);
	unsigned number = 0;
	blocks.take_all(mib / 2, number);
	for (unsigned i = 0; i < number; ++i)
		if (i % 2 == 0) blocks.give_back(i);
		else blocks.pinned.insert(i);
	const auto before = blocks.blocks.at(1).at;
	EXPECT_FALSE(blocks.take(number, mib)) << "between pinned blocks are gaps of 512 KiB";
	EXPECT_EQ(blocks.blocks.at(1).at, before);
	EXPECT_EQ(blocks.arena.counters().moved, 0u);
	EXPECT_STREQ(blocks.arena.broken(), nullptr);
	blocks.pinned.erase(3);
	EXPECT_TRUE(blocks.take(number, mib)) << "one of them may be moved now";
	EXPECT_TRUE(blocks.all_right());
	EXPECT_STREQ(blocks.arena.broken(), nullptr);
}

TEST(Arena, ARunWithABlockThatMayNotBeMovedIsNotEmptied) {
	Blocks blocks(4 * mib);
	unsigned number = 0;
	blocks.take_all(1000, number);
	for (unsigned i = 0; i < number; ++i)
		if (i % 8 != 0) blocks.give_back(i);
		else blocks.pinned.insert(i);
	EXPECT_FALSE(blocks.take(number, mib));
	blocks.pinned.clear();
	EXPECT_TRUE(blocks.take(number, mib));
	EXPECT_TRUE(blocks.all_right());
}

TEST(Arena, TwoBlocksOfNearlyHalfASegmentFitIntoIt) {
	Blocks blocks(Arena::segment_first + Arena::segment_first / 64);
	EXPECT_TRUE(blocks.take(0, Arena::segment_first / 2 + 5000));
	EXPECT_TRUE(blocks.take(1, Arena::segment_first / 2 + 5000));
	EXPECT_EQ(blocks.memory.segments.size(), 1u);
}

TEST(Arena, SegmentsAreTakenAsTheyAreNeeded) {
	Blocks blocks(400 * mib);
	EXPECT_EQ(blocks.arena.reserved(), 0u);
	EXPECT_TRUE(blocks.take(0, 1));
	EXPECT_EQ(blocks.arena.reserved(), Arena::segment_first + Arena::segment_first / 64);
	for (unsigned i = 1; i < 12; ++i) EXPECT_TRUE(blocks.take(i, 30 * mib)) << i;
	EXPECT_LE(blocks.arena.reserved(), 400 * mib);
	EXPECT_EQ(blocks.memory.segments.size(), 3u);
	EXPECT_TRUE(blocks.all_right());
	EXPECT_STREQ(blocks.arena.broken(), nullptr);
}

TEST(Arena, WithoutFurtherMemoryItUsesWhatItHas) {
	Blocks blocks(400 * mib);
	ASSERT_TRUE(blocks.take(0, 100 * mib));
	blocks.memory.refuses = true;
	EXPECT_FALSE(blocks.take(1, 100 * mib));
	EXPECT_TRUE(blocks.take(1, mib));
	EXPECT_FALSE(blocks.take(2, std::size_t{1} << 40));
	EXPECT_EQ(blocks.arena.counters().refused, 2u);
}

}  // namespace
}  // namespace verbena::kv

// SPDX-License-Identifier: Apache-2.0
#include "nic/heap/page_map.h"

#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace verbena::heap {
namespace {

class PageMapTest : public testing::Test {
protected:
	static constexpr std::size_t pages = 1000;
	PageMapTest() {
		map.attach(memory.data(), pages + 1);
		map.extend(pages + 1);
	}

	Pages take(std::size_t count, std::size_t alignment = 1) {
		const auto block = map.take(count, alignment);
		EXPECT_TRUE(block);
		return block.value_or(Pages{});
	}

	std::vector<std::uint64_t> memory = std::vector<std::uint64_t>(PageMap::bytes_for(pages + 1) / 8);
	PageMap map;
};

TEST_F(PageMapTest, BlocksLieOneBehindTheOther) {
	EXPECT_EQ(take(3), (Pages{0, 3}));
	EXPECT_EQ(take(64), (Pages{3, 64}));
	EXPECT_EQ(take(1), (Pages{67, 1}));
	EXPECT_EQ(map.high_water(), 68u);
}

TEST_F(PageMapTest, AFreedBlockIsUsedAgainBeforeHigherPages) {
	take(3);
	const Pages second = take(10);
	take(5);
	map.give_back(second);
	EXPECT_EQ(take(11).first, 18u);
	EXPECT_EQ(take(4), (Pages{3, 4}));
	EXPECT_EQ(take(6), (Pages{7, 6}));
}

TEST_F(PageMapTest, ABlockBeginsAtAMultipleOfItsAlignment) {
	take(1);
	EXPECT_EQ(take(2, 512).first, 512u);
	EXPECT_EQ(take(2, 64).first, 64u);
	EXPECT_EQ(take(62).first, 1u);
}

TEST_F(PageMapTest, ABlockThatDoesNotFitIsRefused) {
	EXPECT_FALSE(map.take(pages + 1, 1));
	EXPECT_FALSE(map.take(SIZE_MAX, 1));
	take(pages);
	EXPECT_FALSE(map.take(1, 1));
}

TEST_F(PageMapTest, NoBlockCrossesTheEndOfAnExtension) {
	std::vector<std::uint64_t> words(PageMap::bytes_for(300) / 8);
	PageMap grown;
	grown.attach(words.data(), 300);
	EXPECT_FALSE(grown.take(1, 1));
	grown.extend(100);
	EXPECT_EQ(grown.take(90, 1), (Pages{0, 90}));
	EXPECT_FALSE(grown.take(10, 1));
	grown.extend(200);
	EXPECT_EQ(grown.take(10, 1), (Pages{100, 10}));
	EXPECT_EQ(grown.take(9, 1), (Pages{90, 9}));
	EXPECT_FALSE(grown.block_with(99));
	EXPECT_EQ(grown.block_with(98), (Pages{90, 9}));
	EXPECT_EQ(grown.next_run(0), (Pages{0, 99}));
	EXPECT_EQ(grown.next_run(99), (Pages{100, 10}));
	EXPECT_FALSE(grown.take(190, 1));
	EXPECT_EQ(grown.take(189, 1), (Pages{110, 189}));
}

TEST_F(PageMapTest, ABlockIsFoundByEachOfItsPagesAndByNoOther) {
	take(3);
	const Pages block = take(200);
	take(1);
	for (std::size_t page = block.first; page < block.end(); ++page) EXPECT_EQ(map.block_with(page), block);
	EXPECT_EQ(map.block_at(block.first), block);
	EXPECT_FALSE(map.block_at(block.first + 1));
	EXPECT_FALSE(map.block_with(204));
	map.give_back(block);
	EXPECT_FALSE(map.block_with(block.first));
	EXPECT_EQ(map.block_with(0), (Pages{0, 3}));
}

TEST_F(PageMapTest, AShortenedBlockFreesItsEnd) {
	const Pages block = take(100);
	map.shorten(block, 7);
	EXPECT_EQ(map.block_at(0), (Pages{0, 7}));
	EXPECT_EQ(take(93), (Pages{7, 93}));
}

TEST_F(PageMapTest, RetiredPagesAreInNoBlockAndNeverFree) {
	take(2);
	const Pages block = take(10);
	map.retire({4, 3});
	map.give_back(block);
	EXPECT_EQ(map.block_with(1), (Pages{0, 2}));
	for (std::size_t page = 2; page < 12; ++page) EXPECT_FALSE(map.block_with(page));
	EXPECT_EQ(take(2), (Pages{2, 2}));
	EXPECT_EQ(map.block_with(3), (Pages{2, 2}));
	EXPECT_EQ(take(5), (Pages{7, 5}));
	EXPECT_EQ(take(1).first, 12u);
}

TEST_F(PageMapTest, RunsAreThePagesOfBlocksWithoutRetiredAndHiddenOnes) {
	take(4);
	const Pages hole = take(2);
	take(10);
	map.give_back(hole);
	map.hidden().set(10, 2);
	EXPECT_EQ(map.next_run(0), (Pages{0, 4}));
	EXPECT_EQ(map.next_run(4), (Pages{6, 4}));
	EXPECT_EQ(map.next_run(10), (Pages{12, 4}));
	EXPECT_FALSE(map.next_run(16));
}

TEST_F(PageMapTest, RandomBlocksNeverOverlap) {
	std::mt19937 random(1);
	std::map<std::size_t, Pages> blocks;
	std::vector<int> owner(pages, 0);
	for (int round = 0; round < 20000; ++round) {
		if (random() % 2 && !blocks.empty()) {
			const auto at = std::next(blocks.begin(), static_cast<long>(random() % blocks.size()));
			ASSERT_EQ(map.block_at(at->first), at->second);
			for (std::size_t page = at->second.first; page < at->second.end(); ++page) owner[page] = 0;
			map.give_back(at->second);
			blocks.erase(at);
			continue;
		}
		const std::size_t count = 1 + random() % 40, alignment = std::size_t{1} << random() % 7;
		const auto block = map.take(count, alignment);
		if (!block) continue;
		ASSERT_EQ(block->first % alignment, 0u);
		ASSERT_EQ(block->count, count);
		for (std::size_t page = block->first; page < block->end(); ++page) ASSERT_EQ(owner[page]++, 0);
		blocks[block->first] = *block;
	}
}

}  // namespace
}  // namespace verbena::heap

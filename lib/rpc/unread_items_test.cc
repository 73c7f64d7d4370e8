// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/unread_items.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lib/channel/heap_message.h"
#include "lib/rpc/stream_window.h"

namespace verbena::rpc {
namespace {

constexpr std::size_t limit = 64 << 20;

class UnreadItemsTest : public ::testing::Test {
protected:
	// Pushes an item that fills `part` of a message of `whole` bytes. Each byte is `fill`.
	bool push(std::size_t part, std::size_t whole, int fill) {
		channel::HeapBlock block = channel::make_heap_block(whole);
		const std::span<std::byte> bytes(block.get(), whole);
		std::ranges::fill(bytes, static_cast<std::byte>(fill));
		Arrived arrived(channel::heap_message(std::move(block), whole), thread_);
		return items_.push(arrived.bytes().first(part), arrived);
	}
	void expect_first(std::size_t size, int fill) {
		ASSERT_FALSE(items_.empty());
		EXPECT_EQ(items_.front().size(), size);
		EXPECT_TRUE(std::ranges::all_of(items_.front(), [&](std::byte each) { return each == std::byte(fill); }));
		items_.pop();
	}

	IoThread thread_;
	Budget budget_{1 << 30};
	std::shared_ptr<ItemBytes> counted_ = std::make_shared<ItemBytes>(budget_, limit);
	UnreadItems items_{counted_};
};

TEST_F(UnreadItemsTest, ManySmallItemsTakeNoMoreMemoryThanTheyTakeOfTheWindow) {
	for (const std::size_t size : {1, 10, 100, 1000, 4000}) {
		std::size_t window = 0;
		for (; window < 256 << 10; window += item_cost(size)) ASSERT_TRUE(push(size, 2 * size, 1));
		EXPECT_LT(counted_->bytes(), window + window / 8) << "items of " << size << " bytes";
		items_.clear();
		EXPECT_EQ(counted_->bytes(), 0u);
	}
}

TEST_F(UnreadItemsTest, AreReadInTheirOrderWhateverTheirSizes) {
	constexpr std::size_t sizes[] = {1, 5'000, 3, 900, 70'000, 4'096, 0, 200, 20'000, 2};
	for (int round = 0; round < 3; ++round) {
		int fill = 0;
		for (const std::size_t size : sizes) ASSERT_TRUE(push(size, size + 24, fill++));
		fill = 0;
		for (const std::size_t size : sizes) expect_first(size, fill++);
		EXPECT_TRUE(items_.empty());
		EXPECT_EQ(budget_.used(), 0u);
	}
}

TEST_F(UnreadItemsTest, ALargeItemCountsWithTheMessageThatItKeeps) {
	ASSERT_TRUE(push(1 << 20, 2 << 20, 1));
	EXPECT_GE(counted_->bytes(), std::size_t{2 << 20});
	ASSERT_TRUE(push(1 << 20, 3 << 20, 2)) << "a third of its message is copied";
	EXPECT_LT(counted_->bytes(), std::size_t{4 << 20});
	expect_first(1 << 20, 1);
	expect_first(1 << 20, 2);
}

TEST_F(UnreadItemsTest, AnItemBeyondTheConnectionsLimitFindsNoRoomUntilOthersAreRead) {
	for (int i = 0; i < 3; ++i) ASSERT_TRUE(push(16 << 20, 16 << 20, i));
	EXPECT_FALSE(push(16 << 20, 16 << 20, 3));
	EXPECT_TRUE(push(100, 200, 4)) << "a small one finds room";
	expect_first(16 << 20, 0);
	EXPECT_TRUE(push(16 << 20, 16 << 20, 5));
}

TEST_F(UnreadItemsTest, AnExhaustedServerTakesOnlyASmallShareOfEachConnection) {
	HeldBytes others(budget_);
	others.take(1 << 30);
	EXPECT_TRUE(push(40'000, 40'000, 1));
	EXPECT_FALSE(push(40'000, 40'000, 2));
	others.give_back(1 << 20);
	EXPECT_TRUE(push(40'000, 40'000, 3));
}

}  // namespace
}  // namespace verbena::rpc

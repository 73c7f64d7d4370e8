// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "lib/channel/rc_fixture.h"

namespace verbena::channel {
namespace {

class Memory : public ::testing::Test {
protected:
	lib::OpenDevice device_ = lib::open_best(testing_tools::test_device()).value();
};

TEST_F(Memory, ABlockHoldsWhatWasAskedForAndAFifthMoreAtMost) {
	MemoryPool pool(device_.domain.get(), IBV_ACCESS_LOCAL_WRITE, {});
	for (const std::size_t size :
		{0uz, 1uz, 4096uz, 4097uz, 5120uz, 5121uz, 65'537uz, 1uz << 20, (1uz << 20) + 1, 64uz << 20}) {
		const std::size_t before = pool.in_use();
		const Buffer buffer = pool.take(size);
		ASSERT_TRUE(static_cast<bool>(buffer)) << size;
		EXPECT_EQ(buffer.bytes().size(), size);
		const std::size_t block = pool.in_use() - before;
		EXPECT_GE(block, size);
		EXPECT_LE(block, std::max<std::size_t>(4096, size + size / 4)) << size;
	}
	EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(Memory, AFreedBlockIsReusedWithoutARegistration) {
	MemoryPool pool(device_.domain.get(), IBV_ACCESS_LOCAL_WRITE, {});
	for (int i = 0; i < 1000; ++i) {
		std::vector<Buffer> buffers;
		for (const std::size_t size : {100uz, 100'000uz, 3'000'000uz}) buffers.push_back(pool.take(size));
	}
	EXPECT_EQ(pool.counters().registrations, 3u);
}

TEST_F(Memory, TheLastHandleGivesItBack) {
	MemoryPool pool(device_.domain.get(), IBV_ACCESS_LOCAL_WRITE, {});
	Buffer first = pool.take(10);
	{
		const Buffer second = first;
		first = {};
		EXPECT_GT(pool.in_use(), 0u);
	}
	EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(Memory, ASizeBeyondAllClassesIsRefused) {
	MemoryPool pool(device_.domain.get(), IBV_ACCESS_LOCAL_WRITE, {});
	EXPECT_FALSE(static_cast<bool>(pool.take(1uz << 63)));
	EXPECT_FALSE(static_cast<bool>(pool.take(~0uz)));
	EXPECT_EQ(pool.counters().refused, 2u);
}

TEST_F(Memory, AboveTheWatermarkNothingIsGivenUntilSomethingComesBack) {
	MemoryPool pool(device_.domain.get(), IBV_ACCESS_LOCAL_WRITE, {.max = 8 << 20, .region_bytes = 1 << 20});
	int freed = 0;
	pool.on_freed([&] { ++freed; });
	Buffer half = pool.take(5 << 20);
	EXPECT_FALSE(static_cast<bool>(pool.take(5 << 20)));
	EXPECT_EQ(pool.counters().refused, 1u);
	half = {};
	EXPECT_EQ(freed, 1);
	EXPECT_TRUE(static_cast<bool>(pool.take(5 << 20)));
}

TEST_F(Memory, UnusedBlocksOfOneSizeMakeRoomForAnother) {
	MemoryPool pool(device_.domain.get(), IBV_ACCESS_LOCAL_WRITE, {.max = 8 << 20, .region_bytes = 1 << 20});
	{
		std::vector<Buffer> small;
		while (auto buffer = pool.take(4096)) small.push_back(std::move(buffer));
		EXPECT_EQ(small.size(), 2048u);
	}
	EXPECT_TRUE(static_cast<bool>(pool.take(8 << 20)));
	EXPECT_LE(pool.registered(), std::size_t{8} << 20);
}

TEST_F(Memory, AProgramsOwnMemoryIsRegisteredWhileItIsHeld) {
	MemoryPool pool(device_.domain.get(), IBV_ACCESS_LOCAL_WRITE, {});
	std::vector<std::byte> own(10'000);
	auto adopted = pool.adopt(own);
	ASSERT_TRUE(adopted.has_value()) << adopted.error();
	EXPECT_EQ(adopted->data(), own.data());
	EXPECT_EQ(pool.registered(), 0u);
	*adopted = {};
	EXPECT_EQ(pool.in_use(), 0u);
}

}  // namespace
}  // namespace verbena::channel

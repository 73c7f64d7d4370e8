// The store's memory limit, with large values in blocks of a registered pool.
#include "lib/kv/fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

class KvMemory : public KvBase {
protected:
	static constexpr std::size_t memory = 1'051'000;  // a little more than whole blocks
	void SetUp() override { open({.memory_max = memory}, {}); }
	static std::string key(int i) { return "k" + std::to_string(100 + i); }
	static bool set(Store& store, std::string_view key, std::size_t size) {
		const std::string value(size, 'v');
		return store.set(key, bytes_of(value));
	}
	int fill(Store& store, std::size_t size) {
		int taken = 0;
		while (set(store, key(taken), size)) ++taken;
		return taken;
	}
};

TEST_F(KvMemory, EveryKeyOfAFullStoreCanBeOverwrittenAtItsLength) {
	ASSERT_TRUE(set(*store_, "z", 1));
	const int taken = fill(*store_, 3000);
	EXPECT_GT(taken, 200);
	EXPECT_LE(store_->used(), memory);
	for (int i = 0; i < taken; ++i) EXPECT_TRUE(set(*store_, key(i), 3000)) << i;
	EXPECT_TRUE(set(*store_, "z", 1));
	EXPECT_LE(store_->used(), memory);
}

TEST_F(KvMemory, TheContentOfAStoreFitsIntoAnotherOneWithTheSameLimit) {
	ASSERT_TRUE(set(*store_, "z", 1));
	const int taken = fill(*store_, 3000);
	for (int i = 0; i < taken; ++i) ASSERT_TRUE(set(*store_, key(i), 2900));
	Store other({.memory_max = memory}, &transports_[0].memory());
	for (int i = taken; i-- > 0;) ASSERT_TRUE(set(other, key(i), 2900)) << i;
	EXPECT_TRUE(set(other, "z", 1));
	EXPECT_EQ(other.used(), store_->used());
}

TEST_F(KvMemory, ManyKeysOfAFullStoreCanBeOverwrittenAtOnce) {
	const int taken = fill(*store_, 60'000);
	std::vector<Value> coming;
	for (int i = 0; i < taken; ++i) coming.push_back(store_->take(key(i), 60'000));
	for (Value& each : coming) {
		ASSERT_TRUE(each);
		EXPECT_TRUE(store_->set(std::move(each)));
	}
	EXPECT_FALSE(set(*store_, "another", 60'000));
	EXPECT_LE(store_->used(), memory);
}

TEST_F(KvMemory, SmallReservationsForALargeKeyMakeNoRoomForOtherKeys) {
	ASSERT_TRUE(set(*store_, "large", 900'000));
	fill(*store_, 1);
	std::vector<Value> coming;
	for (int i = 0; i < 10; ++i) coming.push_back(store_->take("large", 1));
	EXPECT_TRUE(coming.back());
	EXPECT_FALSE(set(*store_, "another", 1));
}

TEST_F(KvMemory, AReservedVersionIsRefusedIfAnotherKeyTookTheRoomOfItsPredecessor) {
	ASSERT_TRUE(set(*store_, "key", 900'000));
	Value coming = store_->take("key", 900'000);
	ASSERT_TRUE(store_->remove("key"));
	ASSERT_TRUE(set(*store_, "other", 900'000));
	EXPECT_FALSE(store_->set(std::move(coming)));
	EXPECT_FALSE(store_->get("key"));
	EXPECT_LE(store_->used(), memory);

	coming = store_->take("other", 900'000);
	ASSERT_TRUE(store_->remove("other"));
	EXPECT_TRUE(store_->set(std::move(coming))) << "no other key has taken the room";
	EXPECT_LE(store_->used(), memory);
}

TEST_F(KvMemory, AnAbandonedReservationIsFreed) {
	const std::size_t before = store_->used();
	{
		const Value coming = store_->take("key", 900'000);
		ASSERT_TRUE(coming);
		EXPECT_GT(store_->used(), 900'000u);
	}
	EXPECT_EQ(store_->used(), before);
	EXPECT_TRUE(set(*store_, "key", 900'000));
}

class KvMemoryAndIndex : public KvMemory {
protected:
	// The pool rounds the index up to a block of 1.25 MiB.
	void SetUp() override { open({.memory_max = memory, .index_bytes = 1'200'000}, {}); }
};

TEST_F(KvMemoryAndIndex, TheIndexTakesNothingOfTheStoresMemory) {
	ASSERT_NE(store_->index(), nullptr);
	EXPECT_EQ(store_->used(), 0u);
	EXPECT_GT(fill(*store_, 3000), 200);
	const Settings settings{.memory = 100 << 20, .one_sided = std::size_t{1100} << 20};
	EXPECT_GE(rc_options(settings).memory.max, settings.memory + channel::MemoryPool::block_size(settings.one_sided));
}

}  // namespace
}  // namespace verbena::kv

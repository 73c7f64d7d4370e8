// SPDX-License-Identifier: Apache-2.0
// The store's memory limit.
#include <map>

#include "base/random.h"
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

// A size from 1 byte to 256 KiB; each doubling is as likely as any other.
std::size_t any_size(Random& random) {
	const std::size_t below = std::size_t{2} << random.below(18);
	return below / 2 + random.below(below / 2);
}

TEST_F(KvMemory, MixedSizesFillTheStoreAndKeepToTheArena) {
	constexpr std::size_t limit = 32 << 20;
	Store store({.memory_max = limit}, &transports_[0].memory());
	std::map<std::string, std::string> model;
	std::size_t live = 0, live_when_full = limit, full = 0;
	Random random(1);
	const auto remove = [&](const std::string& key) {
		const auto found = model.find(key);
		ASSERT_EQ(store.remove(key), found != model.end());
		if (found == model.end()) return;
		live -= key.size() + found->second.size();
		model.erase(found);
	};
	for (int i = 0; i < 30'000 && !HasFatalFailure(); ++i) {
		const std::string key = KvMemory::key(static_cast<int>(random.below(6000)));
		if (random.below(8) == 0) {
			remove(key);
			continue;
		}
		const std::string value = pattern(any_size(random), static_cast<unsigned>(i));
		while (!store.set(key, bytes_of(value))) {
			live_when_full = std::min(live_when_full, live);
			++full;
			auto other = model.lower_bound(KvMemory::key(static_cast<int>(random.below(6000))));
			remove(other == model.end() ? model.begin()->first : std::string(other->first));
		}
		std::string& present = model[key];
		live += (present.empty() ? key.size() : 0) + value.size() - present.size();
		present = value;
		const auto seen = model.lower_bound(KvMemory::key(static_cast<int>(random.below(6000))));
		if (seen == model.end()) continue;
		ASSERT_EQ(text_of(store.get(seen->first).bytes()), seen->second) << "step " << i;
	}
	EXPECT_GT(full, 1000u);
	EXPECT_GT(live_when_full, limit * 85 / 100);
	EXPECT_LE(store.arena().reserved(), Store::arena_bytes(limit));
	EXPECT_EQ(store.size(), model.size());
	for (const auto& [key, value] : model) ASSERT_EQ(text_of(store.get(key).bytes()), value);
	EXPECT_STREQ(store.arena().broken(), nullptr);
}

TEST_F(KvMemory, LargeValuesFollowSmallOnesThatAreMovedAndStillFound) {
	constexpr std::size_t limit = 32 << 20;
	Store store({.memory_max = limit}, &transports_[0].memory());
	std::map<std::string, std::string> model;
	unsigned seed = 0;
	for (const std::size_t size : {std::size_t{30}, std::size_t{1500}, std::size_t{12'000}, std::size_t{400'000}}) {
		for (int i = 0;; ++i) {
			const std::string key = std::to_string(size) + "/" + std::to_string(i), value = pattern(size, ++seed);
			if (!store.set(key, bytes_of(value))) break;
			model[key] = value;
		}
		// Keys are removed so that each run of blocks keeps some.
		int number = 0;
		for (auto at = model.begin(); at != model.end();) {
			if (++number % 8 == 0) {
				++at;
				continue;
			}
			ASSERT_TRUE(store.remove(at->first));
			at = model.erase(at);
		}
		ASSERT_STREQ(store.arena().broken(), nullptr);
		for (const auto& [key, value] : model) ASSERT_EQ(text_of(store.get(key).bytes()), value);
	}
	EXPECT_GT(store.arena().counters().moved, 10'000u);
	EXPECT_EQ(store.size(), model.size());
}

TEST_F(KvMemory, AValueWithABufferIsNeitherMovedNorFreed) {
	constexpr std::size_t limit = 8 << 20;
	Store store({.memory_max = limit}, &transports_[0].memory());
	std::vector<channel::Buffer> lent;
	for (int i = 0; i < 60; ++i) {
		ASSERT_TRUE(store.set(key(i), bytes_of(pattern(100'000, static_cast<unsigned>(i)))));
		if (i % 10 == 0) lent.push_back(store.get(key(i)).buffer(transports_[0].memory()));
	}
	const std::byte* const where = lent[3].data();
	for (int i = 0; i < 60; ++i) ASSERT_TRUE(store.remove(key(i)));
	for (int i = 0; set(store, key(i), 2'000'000); ++i) ASSERT_LT(i, 10);
	EXPECT_EQ(lent[3].data(), where);
	for (unsigned i = 0; i < lent.size(); ++i)
		EXPECT_EQ(text_of(lent[i].bytes()), pattern(100'000, i * 10)) << "of a key that is gone";
	EXPECT_GT(store.used(), lent.size() * 100'000);
	lent.clear();
	for (int i = 0; i < 5; ++i) store.remove(key(i));
	EXPECT_EQ(store.used(), 0u);
}

TEST_F(KvMemory, ARefusalIsForNowIfOldVersionsInUseTakeTheRoom) {
	const std::string large = pattern(900'000, 1);
	std::vector<channel::Buffer> lent;
	bool done = true;
	for (int i = 0; i < 10 && done; ++i) {
		done = store_->set("key", bytes_of(large));
		if (done) lent.push_back(store_->get("key").buffer(transports_[1].memory()));
	}
	EXPECT_FALSE(done) << "the arena has 4 MiB and an eighth more than the limit";
	EXPECT_TRUE(store_->refused_for_now());
	EXPECT_FALSE(set(*store_, "another", 1000));
	EXPECT_FALSE(store_->refused_for_now()) << "another key is beyond the limit";
	lent.clear();
	EXPECT_TRUE(store_->set("key", bytes_of(large)));
}

TEST_F(KvMemory, WhatIsChargedIsNotThereForNewKeysButOldOnesCanBeOverwritten) {
	ASSERT_TRUE(set(*store_, "key", 500'000));
	store_->charge(900'000);
	EXPECT_FALSE(set(*store_, "another", 1));
	EXPECT_TRUE(set(*store_, "key", 500'000));
	EXPECT_FALSE(set(*store_, "key", 600'000));
	store_->charge(0);
	EXPECT_TRUE(set(*store_, "another", 1));
}

TEST(KvStoreMemory, PairsOf1200BytesAndMoreAreEightyFivePercentOfWhatTheyCost) {
	constexpr std::size_t links = 16;  // bytes that the table has for each key
	for (std::size_t pair = 1200; pair < 4 << 20; pair += pair / 500)
		EXPECT_GE(pair * 100, (Arena::block_size(sizeof(Item) + pair) + links) * 85) << pair;
}

TEST_F(KvMemory, ATableThatDoesNotFitDoesNotGrow) {
	constexpr std::size_t limit = 1 << 20;
	Store store({.memory_max = limit}, nullptr);
	int keys = 0;
	while (store.set(std::to_string(keys), Bytes())) ++keys;
	EXPECT_GT(keys, 14'000) << "an item of 64 bytes and a link";
	EXPECT_LE(store.used() + store.overhead(), limit);
	EXPECT_GT(store.overhead(), 0u);
	for (int i = 0; i < keys; ++i) ASSERT_TRUE(store.get(std::to_string(i)));
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
}

}  // namespace
}  // namespace verbena::kv

// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/state/eviction.h"

#include <gtest/gtest.h>

#include "lib/kv/state/cache_fixture.h"

namespace verbena::kv {
namespace {

using testing_tools::TestCache;
using Keys = std::vector<std::uint64_t>;

// A full cache of ten items: 0 is in the small queue, 1 to 9 are in the main one.
class EvictionTest : public ::testing::Test {
protected:
	void SetUp() override {
		for (std::uint64_t key = 0; key < 10; ++key) cache_.get(key);
	}
	TestCache cache_{10};
};

TEST_F(EvictionTest, AnItemThatWasNotUsedLeavesTheSmallQueueFirst) {
	cache_.get(100);
	cache_.get(101);
	cache_.get(102);
	EXPECT_EQ(cache_.evicted, (Keys{0, 100, 101}));
}

TEST_F(EvictionTest, AnItemThatWasUsedOnceInTheSmallQueueIsEvictedAndOneThatWasUsedTwiceIsNot) {
	cache_.get(0);
	cache_.get(100);
	EXPECT_EQ(cache_.evicted, (Keys{0}));
	cache_.get(100);
	cache_.get(100);
	cache_.get(101);
	EXPECT_TRUE(cache_.has(100)) << "it is in the main queue now";
	EXPECT_EQ(cache_.evicted, (Keys{0, 1})) << "the main queue has more than its part then";
}

TEST_F(EvictionTest, AnItemThatComesBackWhileItsGhostIsRememberedEntersTheMainQueue) {
	cache_.get(100);
	cache_.get(101);  // evicts 100
	ASSERT_EQ(cache_.evicted, (Keys{0, 100}));
	cache_.get(100);  // evicts 101
	for (std::uint64_t key = 200; key < 205; ++key) cache_.get(key);
	EXPECT_TRUE(cache_.has(100));
}

TEST_F(EvictionTest, AnItemOfTheMainQueueThatIsUsedHasSecondChances) {
	for (int i = 0; i < 5; ++i) cache_.get(1);
	// Each item enters the main queue by its ghost, so the main queue has to give room.
	for (std::uint64_t key = 100; key < 200 && cache_.has(1); ++key) {
		cache_.get(key);
		cache_.evict();
		cache_.get(key);
	}
	EXPECT_FALSE(cache_.has(1)) << "its uses are counted up to three, and each round takes one";
	const auto at = std::ranges::find(cache_.evicted, 1u), nine = std::ranges::find(cache_.evicted, 9u);
	ASSERT_NE(at, cache_.evicted.end());
	ASSERT_NE(nine, cache_.evicted.end());
	EXPECT_LT(nine, at) << "unused ones went before";
}

TEST_F(EvictionTest, AScanDoesNotReachTheMainQueue) {
	for (std::uint64_t key = 1000; key < 5000; ++key) cache_.get(key);
	for (std::uint64_t key = 1; key < 10; ++key) EXPECT_TRUE(cache_.has(key));
}

TEST_F(EvictionTest, ItemsThatStayAreNotEvictedAndTheirOwnerHearsIfAllStay) {
	for (std::uint64_t key = 0; key < 9; ++key) cache_.held.insert(key);
	EXPECT_TRUE(cache_.evict());
	EXPECT_EQ(cache_.evicted, (Keys{9}));
	EXPECT_FALSE(cache_.evict());
	EXPECT_EQ(cache_.items.size(), 9u);
	cache_.held.clear();
	while (cache_.evict()) {}
	EXPECT_TRUE(cache_.items.empty());
	EXPECT_EQ(cache_.eviction.size(), 0u);
}

TEST_F(EvictionTest, ANewVersionHasThePlaceAndTheUsesOfTheOldOne) {
	TestCache::Item& item = cache_.items.at(1);
	Eviction::Entry fresh;
	cache_.eviction.replace(item, fresh, 1, 1);
	EXPECT_FALSE(item.queued());
	EXPECT_TRUE(fresh.queued());
	// The fresh entry moves to the item, as the arena moves blocks.
	static_cast<Eviction::Entry&>(item) = fresh;
	Eviction::relocated(item);
	for (std::uint64_t key = 2; key < 10; ++key) cache_.remove(key);
	EXPECT_TRUE(cache_.evict());
	EXPECT_TRUE(cache_.evict());
	EXPECT_EQ(cache_.evicted, (Keys{0, 1}));
	EXPECT_EQ(cache_.eviction.size(), 0u);
}

TEST(Eviction, OneEvictionLooksAtAFewItemsAlsoIfAllOfThemAreUsed) {
	class Counting final : public Eviction::Items {
	public:
		Facts facts_of(Eviction::Entry&) override {
			++looked;
			return {.hash = looked, .bytes = 1};
		}
		bool stays(Eviction::Entry&) override { return false; }
		std::uint64_t looked = 0;
	} counting;
	Eviction eviction(1000, counting);
	std::vector<Eviction::Entry> entries(1000);
	for (Eviction::Entry& each : entries) {
		eviction.insert(each, {.hash = 1, .bytes = 1});
		for (int i = 0; i < 3; ++i) eviction.use(each);
	}
	ASSERT_NE(eviction.evict(), nullptr);
	EXPECT_LT(counting.looked, 200u);
}

// Random steps, checked against what must hold: sizes and bytes agree, and each item is in a queue
// until it is evicted or removed.
TEST(Eviction, RandomStepsKeepItsCounts) {
	for (std::uint64_t seed = 1; seed <= 20; ++seed) {
		Random random(seed);
		TestCache cache(10'000);
		for (int step = 0; step < 20'000; ++step) {
			const std::uint64_t key = random.below(400);
			if (random.below(10) == 0 && cache.has(key)) {
				cache.remove(key);
			} else {
				cache.get(key, 1 + key % 97);
			}
			ASSERT_EQ(cache.eviction.size(), cache.items.size());
			ASSERT_LE(cache.used, 10'000u);
		}
		std::size_t left = cache.items.size();
		while (cache.evict()) --left;
		ASSERT_EQ(left, 0u);
		ASSERT_EQ(cache.used, 0u);
	}
}

}  // namespace
}  // namespace verbena::kv

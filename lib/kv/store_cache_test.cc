// SPDX-License-Identifier: Apache-2.0
// The store as a cache: eviction, and ends of life.
#include <map>

#include "base/random.h"
#include "lib/kv/fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

class StoreCacheTest : public ::testing::Test {
protected:
	static bool set(Store& store, std::string_view key, std::size_t size) {
		const std::string value(size, 'v');
		return store.set(key, bytes_of(value));
	}
	static bool set_until(Store& store, std::string_view key, std::string_view value, Nanoseconds end) {
		Value made = store.take(key, bytes_of(value), Life::limited);
		if (!made) return false;
		made.end_at(end);
		return store.set(std::move(made));
	}
	static std::string key(int i) { return "k" + std::to_string(i); }
	// Ends what is due, without a bound.
	static void expire(Store& store, Nanoseconds now) {
		while (store.expire(now, 100, [&](Value value) { store.end(std::move(value)); })) {}
	}
};

// Eviction.

TEST_F(StoreCacheTest, AFullStoreThatEvictsTakesEverySetAndStaysInItsMemory) {
	constexpr std::size_t memory = 1 << 20;
	Store store({.memory_max = memory, .evict = true}, nullptr);
	for (int i = 0; i < 50'000; ++i) {
		ASSERT_TRUE(set(store, key(i), 100));
		ASSERT_LE(store.used() + store.overhead(), memory);
	}
	EXPECT_GT(store.used() + store.overhead(), memory * 95 / 100) << "it keeps as many as fit";
	EXPECT_EQ(store.counters().evicted, 50'000 - store.size());
	EXPECT_EQ(store.counters().refused, 0u);
	EXPECT_TRUE(store.get(key(49'999)));
}

TEST_F(StoreCacheTest, KeysThatAreReadStayWhileOthersGo) {
	Store store({.memory_max = 1 << 20, .evict = true}, nullptr);
	for (int i = 0; i < 20'000; ++i) {
		ASSERT_TRUE(set(store, key(i), 100));
		for (int read = 0; read < 10; ++read) store.get(key(read));
	}
	for (int i = 0; i < 10; ++i) EXPECT_TRUE(store.get(key(i))) << i;
	EXPECT_FALSE(store.get(key(15'000)));
}

TEST_F(StoreCacheTest, AValueThatCannotFitEvictsNothing) {
	Store store({.memory_max = 1 << 20, .evict = true}, nullptr);
	for (int i = 0; i < 100; ++i) ASSERT_TRUE(set(store, key(i), 1000));
	EXPECT_FALSE(set(store, "large", 2 << 20));
	EXPECT_FALSE(store.refused_for_now());
	EXPECT_EQ(store.size(), 100u);
	EXPECT_TRUE(set(store, "large", 900'000));
	EXPECT_TRUE(store.get("large"));
}

TEST_F(StoreCacheTest, AVersionThatAValueHoldsIsNotEvictedAndASetThatNeedsItsRoomIsRefusedForNow) {
	Store store({.memory_max = 1 << 20, .evict = true}, nullptr);
	const std::string text = pattern(400'000, 1);
	ASSERT_TRUE(store.set("one", bytes_of(text)));
	ASSERT_TRUE(store.set("two", bytes_of(text)));
	Value one = store.get("one"), two = store.get("two");
	EXPECT_FALSE(set(store, "three", 500'000));
	EXPECT_TRUE(store.refused_for_now());
	EXPECT_EQ(text_of(one.bytes()), text);
	two = Value();
	EXPECT_TRUE(set(store, "three", 500'000));
	EXPECT_TRUE(store.get("one"));
	EXPECT_FALSE(store.get("two"));
}

TEST_F(StoreCacheTest, AKeyOfAFullStoreGetsALargerValueAlsoWhenItsOwnVersionIsEvictedForIt) {
	Store store({.memory_max = 1 << 20, .evict = true}, nullptr);
	for (int i = 0; i < 20; ++i) ASSERT_TRUE(set(store, "key", 20'000 + static_cast<std::size_t>(i) * 40'000));
	EXPECT_EQ(store.get("key").size(), 20'000u + 19 * 40'000);
	EXPECT_EQ(store.size(), 1u);
	// The version that a new one replaces is evicted while that is arriving.
	Value coming = store.take("key", 780'000);
	ASSERT_TRUE(coming);
	ASSERT_TRUE(set(store, "other", 300'000));
	EXPECT_TRUE(store.set(std::move(coming)));
	EXPECT_LE(store.used() + store.overhead(), std::size_t{1} << 20);
}

TEST_F(StoreCacheTest, SmallValuesAfterLargeOnesGetATableThatGrows) {
	constexpr std::size_t memory = 8 << 20;
	Store store({.memory_max = memory, .evict = true}, nullptr);
	for (int i = 0; i < 100; ++i) ASSERT_TRUE(set(store, key(i), 500'000));
	const std::size_t table = store.overhead();
	for (int i = 0; i < 200'000; ++i) ASSERT_TRUE(set(store, key(i), 40));
	EXPECT_GT(store.overhead(), table + 256 * 1024);
	EXPECT_GT(store.size(), 50'000u);
	EXPECT_LE(store.used() + store.overhead(), memory);
	EXPECT_GT(store.used() + store.overhead(), memory * 9 / 10);
}

// Sizes, lives, DELs and held values at random, beside a model. The values in the store are right;
// an evicted key is missing, and no key comes back.
TEST_F(StoreCacheTest, RandomStepsNeverShowAnOldValue) {
	for (std::uint64_t seed = 1; seed <= 4; ++seed) {
		constexpr std::size_t memory = 2 << 20;
		Store store({.memory_max = memory, .evict = true}, nullptr);
		Random random(seed);
		struct Wanted {
			std::string value;
			Nanoseconds end = never;
		};
		std::map<std::string, Wanted> model;
		std::vector<Value> held;
		Nanoseconds now = ms;
		std::uint64_t hits = 0;
		for (unsigned step = 0; step < 40'000; ++step) {
			const std::string name = key(static_cast<int>(random.below(3000)));
			const std::uint64_t chosen = random.below(16);
			now += random.below(ms);
			if (chosen < 6) {
				const std::string value = pattern(random.below(std::uint64_t{2} << random.below(15)), step);
				const bool mortal = random.below(2) == 0;
				const Nanoseconds end = mortal ? now + random.below(1000 * ms) : never;
				const bool done = mortal ? set_until(store, name, value, end) : store.set(name, bytes_of(value));
				ASSERT_TRUE(done) << "seed " << seed << ", step " << step;
				model[name] = {.value = value, .end = end};
			} else if (chosen == 6) {
				store.remove(name, now);
				model.erase(name);
			} else if (chosen == 7) {
				while (held.size() > 20) held.erase(held.begin());
				if (Value value = store.get(name, now)) held.push_back(std::move(value));
			} else if (chosen == 8) {
				store.expire(now, random.below(30), [&](Value value) { store.end(std::move(value)); });
			} else {
				const Value found = store.get(name, now);
				if (!found) continue;
				++hits;
				ASSERT_TRUE(model.contains(name));
				ASSERT_EQ(text_of(found.bytes()), model[name].value);
				ASSERT_GT(model[name].end, now);
			}
			// Old versions that are held come on top.
			ASSERT_LE(store.used() + store.overhead(), memory + held.size() * 80'000);
		}
		EXPECT_GT(hits, 1000u);
		EXPECT_GT(store.counters().evicted, 1000u);
		EXPECT_GT(store.counters().expired, 100u);
		held.clear();
		EXPECT_STREQ(store.arena().broken(), nullptr);
	}
}

// Ends of life.

TEST_F(StoreCacheTest, AKeyIsMissingFromItsEndOnAlsoBeforeItIsTakenOut) {
	Store store({}, nullptr);
	store.announce(10 * ms);
	ASSERT_TRUE(set_until(store, "key", "value", 20 * ms));
	EXPECT_TRUE(store.get("key", 20 * ms - 1));
	EXPECT_FALSE(store.get("key", 20 * ms));
	EXPECT_FALSE(store.newest("key", 20 * ms).value);
	EXPECT_FALSE(store.remove("key", 20 * ms));
	EXPECT_EQ(store.size(), 1u);
	expire(store, 40 * ms);
	EXPECT_EQ(store.size(), 0u);
	EXPECT_EQ(store.used(), 0u);
	EXPECT_EQ(store.counters().expired, 1u);
	EXPECT_EQ(store.counters().removes, 0u);
}

TEST_F(StoreCacheTest, ASetGivesTheKeyANewLife) {
	Store store({}, nullptr);
	ASSERT_TRUE(set_until(store, "endless", "one", 20 * ms));
	ASSERT_TRUE(store.set("endless", bytes_of("two")));
	ASSERT_TRUE(set_until(store, "longer", "one", 20 * ms));
	ASSERT_TRUE(set_until(store, "longer", "two", 1000 * ms));
	expire(store, 500 * ms);
	EXPECT_TRUE(store.get("endless", 500 * ms));
	EXPECT_TRUE(store.get("longer", 500 * ms));
	EXPECT_FALSE(store.get("longer", 1000 * ms));
}

TEST_F(StoreCacheTest, AMillionEndsAtOneInstantAreTakenOutAFewAtATime) {
	Store store({}, nullptr);
	constexpr int count = 1'000'000;
	for (int i = 0; i < count; ++i) ASSERT_TRUE(set_until(store, std::to_string(i), "v", 1000 * ms));
	std::size_t calls = 0, ended = 0, most = 0;
	for (bool more = true; more; ++calls) {
		std::size_t now_ended = 0;
		more = store.expire(2000 * ms, Changes::expired_at_once, [&](Value value) {
			store.end(std::move(value));
			++now_ended;
		});
		ended += now_ended;
		most = std::max(most, now_ended);
	}
	EXPECT_EQ(ended, std::size_t{count});
	EXPECT_EQ(most, Changes::expired_at_once);
	EXPECT_GE(calls, count / Changes::expired_at_once);
	EXPECT_EQ(store.used(), 0u);
}

TEST_F(StoreCacheTest, AVersionThatIsStillReadOutlivesItsEndAndItsKeyDoesNot) {
	Store store({}, nullptr);
	ASSERT_TRUE(set_until(store, "key", "value", 20 * ms));
	const Value held = store.get("key", 0);
	expire(store, 100 * ms);
	EXPECT_EQ(store.size(), 0u);
	EXPECT_EQ(text_of(held.bytes()), "value");
}

// One-sided GETs.

class PublishedLives : public KvBase {
protected:
	void SetUp() override { open({.memory_max = 4 << 20, .index_bytes = Index::bytes_min, .evict = true}, {}); }
	bool published(std::string_view key) const {
		const Index& index = *store_->index();
		const std::uint64_t hash = index_hash(key, index.shape().seed);
		const std::size_t at = (hash & (index.shape().lines - 1)) * line_bytes;
		const Bytes area = index.area().bytes();
		return read_line(area.subspan(at, line_bytes), key, hash, area.size()).seen == Seen::inside;
	}
	void set_until(std::string_view key, Nanoseconds end) {
		Value made = store_->take(key, bytes_of("value"), Life::limited);
		made.end_at(end);
		ASSERT_TRUE(store_->set(std::move(made)));
	}
	void publish(std::string_view key) { store_->publish(key, store_->get(key)); }
	void expire(Nanoseconds now) {
		while (store_->expire(now, 100, [&](Value value) { store_->end(std::move(value)); })) {}
	}
};

TEST_F(PublishedLives, APublishedKeyIsWithdrawnBeforeItsEndAndThenAnswersByMessage) {
	const Nanoseconds begin = loop_.now();
	store_->announce(begin);
	set_until("key", begin + 1000 * ms);
	publish("key");
	ASSERT_TRUE(published("key"));
	expire(begin + 900 * ms);
	EXPECT_TRUE(published("key"));
	expire(begin + 994 * ms);
	EXPECT_FALSE(published("key"));
	EXPECT_TRUE(store_->get("key", begin + 994 * ms));
	expire(begin + 1050 * ms);
	EXPECT_EQ(store_->size(), 0u);
}

TEST_F(PublishedLives, AKeyThatEndsSoonIsNotPublishedAndASetOfAPublishedOneWithdrawsIt) {
	const Nanoseconds begin = loop_.now();
	store_->announce(begin);
	set_until("soon", begin + 50 * ms);
	publish("soon");
	EXPECT_FALSE(published("soon"));
	ASSERT_TRUE(store_->set("key", bytes_of("value")));
	publish("key");
	ASSERT_TRUE(published("key"));
	set_until("key", begin + 500 * ms);
	EXPECT_TRUE(published("key"));
	expire(begin + 494 * ms);
	EXPECT_FALSE(published("key"));
	set_until("key", begin + 5000 * ms);
	publish("key");
	ASSERT_TRUE(published("key"));
	set_until("key", begin + 510 * ms);
	EXPECT_FALSE(published("key"));
}

TEST_F(PublishedLives, APublishedKeyIsWithdrawnInsteadOfEvictedOnce) {
	ASSERT_TRUE(store_->set("published", bytes_of("value")));
	ASSERT_TRUE(store_->set("other", bytes_of("value")));
	publish("published");
	const std::string large(100'000, 'v');
	for (int i = 0; store_->counters().evicted == 0; ++i)
		ASSERT_TRUE(store_->set("large" + std::to_string(i), bytes_of(large)));
	EXPECT_FALSE(published("published")) << "it was the first one that had to go";
	EXPECT_FALSE(store_->get("other"));
	EXPECT_TRUE(store_->get("published")) << "its uses are seen again from now on";
	// Others that are used push it out of the main queue.
	for (int i = 0; store_->newest("published").value; ++i) {
		ASSERT_LT(i, 1000);
		const std::string other = "other" + std::to_string(i);
		ASSERT_TRUE(store_->set(other, bytes_of(large)));
		for (int use = 0; use < 2; ++use) ASSERT_TRUE(store_->get(other));
	}
}

}  // namespace
}  // namespace verbena::kv

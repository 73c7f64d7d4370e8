// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/random.h"

namespace verbena::kv {
namespace {

// A store without a pool, whose values all lie on the heap. store_memory_test.cc has one with a
// pool.
class StoreTest : public ::testing::Test {
protected:
	std::string get(Store& store, std::string_view key) {
		const Value value = store.get(key);
		return value ? std::string(text_of(value.bytes())) : "(missing)";
	}
};

TEST_F(StoreTest, ASetIsSeenByTheNextGet) {
	Store store({}, nullptr);
	EXPECT_EQ(get(store, "key"), "(missing)");
	EXPECT_TRUE(store.set("key", bytes_of("one")));
	EXPECT_EQ(get(store, "key"), "one");
	EXPECT_TRUE(store.set("key", bytes_of("two")));
	EXPECT_EQ(get(store, "key"), "two");
	EXPECT_EQ(store.size(), 1u);
	EXPECT_TRUE(store.remove("key"));
	EXPECT_FALSE(store.remove("key"));
	EXPECT_EQ(get(store, "key"), "(missing)");
	EXPECT_EQ(store.used(), 0u);
}

TEST_F(StoreTest, AnEmptyValueIsNotAMissingOne) {
	Store store({}, nullptr);
	EXPECT_TRUE(store.set("key", Bytes()));
	EXPECT_TRUE(store.get("key"));
	EXPECT_EQ(get(store, "key"), "");
}

TEST_F(StoreTest, KeysAndValuesMayHoldAnyBytes) {
	Store store({}, nullptr);
	const std::string key("a\0b", 3), value("\0\xff\0", 3);
	EXPECT_TRUE(store.set(key, bytes_of(value)));
	EXPECT_EQ(get(store, key), value);
	EXPECT_EQ(get(store, "a"), "(missing)");
}

TEST_F(StoreTest, AHeldValueStaysAsItWasWhenItsKeyIsOverwritten) {
	Store store({}, nullptr);
	ASSERT_TRUE(store.set("key", bytes_of("one")));
	Value held = store.get("key");
	ASSERT_TRUE(store.set("key", bytes_of("two")));
	ASSERT_TRUE(store.remove("key"));
	EXPECT_EQ(text_of(held.bytes()), "one");
	EXPECT_GT(store.used(), 0u);
	held = Value();
	EXPECT_EQ(store.used(), 0u);
}

TEST_F(StoreTest, AFullStoreRefusesAndKeepsWhatItHas) {
	Store store({.memory_max = 10'000}, nullptr);
	const std::string value(1000, 'v');
	int taken = 0;
	while (store.set("key" + std::to_string(taken), bytes_of(value))) ++taken;
	EXPECT_GT(taken, 7);
	EXPECT_LE(store.used(), 10'000u);
	EXPECT_EQ(store.counters().refused, 1u);
	EXPECT_EQ(get(store, "key0"), value);
	// A present key can get a value of the same length, but not a longer one.
	const std::string other(1000, 'w');
	EXPECT_TRUE(store.set("key0", bytes_of(other)));
	EXPECT_EQ(get(store, "key0"), other);
	EXPECT_FALSE(store.set("key0", bytes_of(std::string(2500, 'x'))));
	EXPECT_EQ(get(store, "key0"), other);
	EXPECT_TRUE(store.remove("key1"));
	EXPECT_TRUE(store.set("another", bytes_of(value)));
}

TEST_F(StoreTest, AMillionOverwritesLeaveItsMemoryAsItWas) {
	Store store({}, nullptr);
	ASSERT_TRUE(store.set("key", bytes_of("0000000")));
	const std::size_t used = store.used();
	for (int i = 0; i < 1'000'000; ++i) ASSERT_TRUE(store.set("key", bytes_of(std::to_string(1'000'000 + i))));
	EXPECT_EQ(store.used(), used);
	EXPECT_EQ(store.size(), 1u);
}

TEST_F(StoreTest, ItAgreesWithAMapWhileItGrowsAndShrinks) {
	Store store({}, nullptr);
	std::map<std::string, std::string> model;
	Random random(7);
	for (int i = 0; i < 200'000; ++i) {
		const std::string key = "key " + std::to_string(random.below(20'000));
		switch (random.below(4)) {
			case 0: ASSERT_EQ(store.remove(key), model.erase(key) > 0); break;
			case 1: {
				const auto found = model.find(key);
				ASSERT_EQ(get(store, key), found == model.end() ? "(missing)" : found->second);
				break;
			}
			default: {
				const std::string value(random.below(40), static_cast<char>('a' + i % 26));
				ASSERT_TRUE(store.set(key, bytes_of(value)));
				model[key] = value;
			}
		}
	}
	ASSERT_EQ(store.size(), model.size());
	for (const auto& [key, value] : model) ASSERT_EQ(get(store, key), value);
}

}  // namespace
}  // namespace verbena::kv

// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/state/window.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/random.h"

namespace verbena::kv {
namespace {

struct Write {
	std::string key, value;
};

// A register for each key, behind a window. A hash with few values lets keys share buckets.
class Registers {
public:
	explicit Registers(std::size_t capacity) : window(capacity) {}

	static std::uint64_t hash_of(const std::string& key) { return std::hash<std::string>()(key) % 7 * 1001; }
	void set(const std::string& key, const std::string& value) { window.accept(hash_of(key), {key, value}); }
	std::string visible(const std::string& key) const {
		const auto found = applied.find(key);
		return found == applied.end() ? "" : found->second;
	}
	std::string newest(const std::string& key) const {
		const Write* const found = window.newest(hash_of(key), [&](const Write& write) { return write.key == key; });
		return found == nullptr ? visible(key) : found->value;
	}
	void hold(std::uint64_t end) {
		window.hold(end, [&](Write& write) {
			if (!write.key.empty()) applied[write.key] = write.value;
			left.push_back(write.value);
		});
	}
	void drop(std::uint64_t from) {
		window.drop(from, [&](Write& write) { left.push_back(write.value); });
	}

	Window<Write> window;
	std::map<std::string, std::string> applied;
	std::vector<std::string> left;  // the values that left the window, in order
};

TEST(Window, AChangeIsVisibleOnceItIsHeldAndNotBefore) {
	Registers registers(8);
	registers.set("key", "one");
	EXPECT_EQ(registers.visible("key"), "");
	EXPECT_EQ(registers.newest("key"), "one");
	registers.hold(registers.window.end());
	EXPECT_EQ(registers.visible("key"), "one");
	EXPECT_TRUE(registers.window.empty());
}

TEST(Window, ASecondSetOfAKeyWaitsBehindTheFirst) {
	Registers registers(8);
	registers.set("key", "one");
	registers.set("key", "two");
	EXPECT_EQ(registers.newest("key"), "two");
	registers.hold(registers.window.begin() + 1);
	EXPECT_EQ(registers.visible("key"), "one");
	EXPECT_EQ(registers.newest("key"), "two");
	registers.hold(registers.window.end());
	EXPECT_EQ(registers.visible("key"), "two");
}

TEST(Window, ARefusedChangeIsUndoneAndTheOneBeforeItIsTheNewestAgain) {
	Registers registers(8);
	registers.set("key", "one");
	const std::uint64_t refused = registers.window.end();
	registers.set("key", "two");
	registers.set("key", "three");
	registers.drop(refused);
	EXPECT_EQ(registers.left, (std::vector<std::string>{"three", "two"})) << "the newest is undone first";
	EXPECT_EQ(registers.newest("key"), "one");
	registers.set("key", "four");
	registers.hold(registers.window.end());
	EXPECT_EQ(registers.visible("key"), "four");
}

TEST(Window, AnEntryWithoutAKeyWaitsForTheChangesBeforeItAndIsNoKeysNewest) {
	Registers registers(8);
	registers.set("key", "one");
	registers.window.follow({"", "answer"});
	EXPECT_EQ(registers.newest("key"), "one");
	registers.hold(registers.window.end());
	EXPECT_EQ(registers.left, (std::vector<std::string>{"one", "answer"}));
}

TEST(Window, AFullWindowHasRoomAgainWhenChangesLeaveItAtEitherEnd) {
	Registers registers(4);
	for (int i = 0; i < 4; ++i) registers.set("key" + std::to_string(i), "value");
	EXPECT_TRUE(registers.window.full());
	registers.hold(registers.window.begin() + 1);
	EXPECT_FALSE(registers.window.full());
	registers.set("another", "value");
	EXPECT_TRUE(registers.window.full());
	registers.drop(registers.window.end() - 1);
	EXPECT_EQ(registers.window.size(), 3u);
}

TEST(Window, RandomStepsAgreeWithAListOfChanges) {
	for (std::uint64_t seed = 1; seed <= 40; ++seed) {
		Random random(seed);
		Registers registers(64);
		std::vector<Write> list;  // the model: what is in the window
		std::map<std::string, std::string> visible;
		std::vector<std::string> left;
		for (int step = 0; step < 3000; ++step) {
			const std::uint64_t chosen = random.below(list.size() + 1);
			switch (random.below(8)) {
				case 0:
					registers.hold(registers.window.begin() + chosen);
					for (std::uint64_t i = 0; i < chosen; ++i) {
						if (!list[i].key.empty()) visible[list[i].key] = list[i].value;
						left.push_back(list[i].value);
					}
					list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(chosen));
					break;
				case 1:
					registers.drop(registers.window.begin() + chosen);
					for (; list.size() > chosen; list.pop_back()) left.push_back(list.back().value);
					break;
				case 2:
					if (registers.window.full()) break;
					list.push_back({"", std::to_string(step)});
					registers.window.follow(list.back());
					break;
				default:
					if (registers.window.full()) break;
					list.push_back({"key" + std::to_string(random.below(20)), std::to_string(step)});
					registers.set(list.back().key, list.back().value);
			}
			ASSERT_EQ(registers.window.size(), list.size());
			for (int i = 0; i < 20; ++i) {
				const std::string key = "key" + std::to_string(i);
				std::string newest = visible[key];
				for (const Write& each : list)
					if (each.key == key) newest = each.value;
				ASSERT_EQ(registers.newest(key), newest) << "seed " << seed << ", step " << step;
				ASSERT_EQ(registers.visible(key), visible[key]) << "seed " << seed << ", step " << step;
			}
		}
		std::vector<std::string> waiting;
		registers.window.for_each([&](const Write& write) { waiting.push_back(write.value); });
		ASSERT_EQ(waiting.size(), list.size());
		for (std::size_t i = 0; i < list.size(); ++i) ASSERT_EQ(waiting[i], list[i].value);
		ASSERT_EQ(registers.left, left);
	}
}

}  // namespace
}  // namespace verbena::kv

// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/state/watch_index.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>

namespace verbena::kv {
namespace {

using Watch = WatchIndex::Watch;

std::multiset<const Watch*> found(const WatchIndex& index, std::string_view key) {
	std::multiset<const Watch*> all;
	index.for_each_of(key, [&](const Watch& each) { all.insert(&each); });
	EXPECT_EQ(index.cost_of(key).watches, all.size());
	return all;
}

TEST(WatchIndex, AKeyBelongsToItsOwnWatchesAndToThoseOfItsPrefixes) {
	Watch key, same, prefix, whole, all, longer, other;
	WatchIndex index;
	for (Watch* const each : {&key, &same}) index.add(*each, "user:1", false);
	index.add(prefix, "user:", true);
	index.add(whole, "user:1", true);
	index.add(all, "", true);
	index.add(longer, "user:10", true);
	index.add(other, "job:", true);
	EXPECT_EQ(found(index, "user:1"), (std::multiset<const Watch*>{&key, &same, &prefix, &whole, &all}));
	EXPECT_EQ(found(index, "user:12"), (std::multiset<const Watch*>{&prefix, &whole, &all}));
	EXPECT_EQ(found(index, "user"), (std::multiset<const Watch*>{&all}));
	EXPECT_EQ(found(index, "zebra"), (std::multiset<const Watch*>{&all}));
	EXPECT_EQ(WatchIndex::text_length(longer), 7u);
	for (Watch* const each : {&key, &all, &prefix}) index.remove(*each);
	EXPECT_EQ(found(index, "user:1"), (std::multiset<const Watch*>{&same, &whole}));
	for (Watch* const each : {&same, &whole, &longer, &other}) index.remove(*each);
	EXPECT_TRUE(index.empty());
	EXPECT_EQ(index.cost_of("user:1").nodes, 1u) << "only the root is left";
}

TEST(WatchIndex, APausedWatchIsNotFoundUntilItIsResumedAndMayBePausedWhenItIsSeen) {
	std::deque<Watch> watches(5);
	WatchIndex index;
	for (Watch& each : watches) index.add(each, "a", true);
	std::multiset<const Watch*> seen;
	index.for_each_of("ab", [&](Watch& each) {
		seen.insert(&each);
		if (&each != &watches[2]) index.pause(each);
	});
	EXPECT_EQ(seen.size(), 5u);
	EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 5u);
	EXPECT_EQ(found(index, "ab"), (std::multiset<const Watch*>{&watches[2]}));
	index.pause(watches[2]);
	EXPECT_TRUE(index.empty());
	index.resume(watches[4]);
	EXPECT_EQ(found(index, "ab"), (std::multiset<const Watch*>{&watches[4]}));
	for (Watch& each : watches) index.remove(each);
	EXPECT_TRUE(index.empty());
}

// Few letters, so that texts are prefixes of each other, and the highest byte, because it sorts
// last.
std::string random_text(std::mt19937& random) {
	std::string text;
	for (std::size_t i = random() % 6; i > 0; --i) text.push_back("ab\xff"[random() % 3]);
	return text;
}

TEST(WatchIndex, FindsWhatComparingEachWatchFinds) {
	struct Known {
		std::string text;
		bool is_prefix, paused;
	};
	std::mt19937 random(1);
	for (int round = 0; round < 200; ++round) {
		WatchIndex index;
		std::deque<Watch> watches;
		std::map<Watch*, Known> there;
		for (int i = 0; i < 60; ++i) {
			Known known{random_text(random), random() % 2 == 0, false};
			index.add(watches.emplace_back(), known.text, known.is_prefix);
			there.emplace(&watches.back(), std::move(known));
			Watch* const other = std::next(there.begin(), random() % there.size())->first;
			if (random() % 2 == 0) {
				index.remove(*other);
				there.erase(other);
			} else if (random() % 2 == 0) {
				if (std::exchange(there.at(other).paused, !there.at(other).paused)) index.resume(*other);
				else index.pause(*other);
			}
		}
		for (int i = 0; i < 50; ++i) {
			const std::string key = random_text(random);
			std::multiset<const Watch*> wanted;
			for (const auto& [watch, known] : there)
				if (!known.paused && (known.is_prefix ? key.starts_with(known.text) : key == known.text))
					wanted.insert(watch);
			EXPECT_EQ(found(index, key), wanted) << round << " " << key;
			EXPECT_LE(index.cost_of(key).nodes, key.size() + 2);
		}
		while (!there.empty()) {
			index.remove(*there.begin()->first);
			there.erase(there.begin());
		}
		EXPECT_TRUE(index.empty());
		EXPECT_EQ(index.cost_of("ab").nodes, 1u) << "only the root is left";
	}
}

// When the connections of many clients that watched one prefix ended, each removal looked at all
// watches: minutes for this many.
TEST(WatchIndex, RemovingEachOfVeryManyWatchesOfOneTextLooksAtNoOtherWatch) {
	constexpr std::size_t many = 1'000'000;
	std::vector<Watch> watches(many);
	WatchIndex index;
	for (Watch& each : watches) index.add(each, "", true);
	EXPECT_EQ(index.cost_of("key").watches, many);
	// Half of them the oldest first, the others the latest first.
	for (std::size_t i = 0; i < many / 2; ++i) index.remove(watches[i]);
	EXPECT_EQ(index.cost_of("key").watches, many / 2);
	for (std::size_t i = many; i > many / 2; --i) index.remove(watches[i - 1]);
	EXPECT_TRUE(index.empty());
}

// A search took as many comparisons of long texts as there were texts that begin like the key: for
// this many keys, minutes.
TEST(WatchIndex, ALongKeyIsReadOnceAlsoIfThousandsOfTextsBeginLikeIt) {
	const std::string key(4096, 'a');
	std::vector<Watch> watches(key.size());
	WatchIndex index;
	for (std::size_t i = 0; i < watches.size(); ++i) index.add(watches[i], key.substr(0, i) + '\0', true);
	EXPECT_LE(index.cost_of(key).nodes, key.size() + 1);
	std::size_t seen = 0;
	for (int i = 0; i < 15'000; ++i) index.for_each_of(key, [&](const Watch&) { ++seen; });
	EXPECT_EQ(seen, 0u);
	EXPECT_EQ(found(index, std::string(100, 'a') + '\0').size(), 1u);
	for (Watch& each : watches) index.remove(each);
	EXPECT_EQ(index.cost_of(key).nodes, 1u);
}

}  // namespace
}  // namespace verbena::kv

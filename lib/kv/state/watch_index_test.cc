// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/state/watch_index.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>

namespace verbena::kv {
namespace {

using Watch = WatchIndex::Watch;

std::multiset<const Watch*> found(const WatchIndex& index, std::string_view key) {
	std::multiset<const Watch*> all;
	index.for_each_of(key, [&](const Watch& each) { all.insert(&each); });
	return all;
}

TEST(WatchIndex, AKeyBelongsToItsOwnWatchesAndToThoseOfItsPrefixes) {
	Watch key{"user:1", false}, same{"user:1", false}, prefix{"user:", true}, whole{"user:1", true}, all{"", true},
		longer{"user:10", true}, other{"job:", true};
	WatchIndex index;
	for (Watch* const each : {&key, &same, &prefix, &whole, &all, &longer, &other}) index.add(*each);
	EXPECT_EQ(found(index, "user:1"), (std::multiset<const Watch*>{&key, &same, &prefix, &whole, &all}));
	EXPECT_EQ(found(index, "user:12"), (std::multiset<const Watch*>{&prefix, &whole, &all}));
	EXPECT_EQ(found(index, "user"), (std::multiset<const Watch*>{&all}));
	EXPECT_EQ(found(index, "zebra"), (std::multiset<const Watch*>{&all}));
	for (Watch* const each : {&key, &all, &prefix}) index.remove(*each);
	EXPECT_EQ(found(index, "user:1"), (std::multiset<const Watch*>{&same, &whole}));
	for (Watch* const each : {&same, &whole, &longer, &other}) index.remove(*each);
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
	std::mt19937 random(1);
	for (int round = 0; round < 200; ++round) {
		WatchIndex index;
		std::deque<Watch> watches;
		std::set<Watch*> there;
		for (int i = 0; i < 40; ++i) {
			watches.push_back({random_text(random), random() % 2 == 0});
			index.add(watches.back());
			there.insert(&watches.back());
			if (random() % 4 != 0) continue;
			Watch* const gone = *there.begin();
			index.remove(*gone);
			there.erase(gone);
		}
		for (int i = 0; i < 50; ++i) {
			const std::string key = random_text(random);
			std::multiset<const Watch*> wanted;
			for (Watch* const each : there)
				if (each->is_prefix ? key.starts_with(each->text) : key == each->text) wanted.insert(each);
			EXPECT_EQ(found(index, key), wanted) << round << " " << key;
		}
		EXPECT_EQ(index.empty(), there.empty());
	}
}

}  // namespace
}  // namespace verbena::kv

// SPDX-License-Identifier: Apache-2.0
// For tests of the eviction: a cache of items without content. An item that is asked for and
// missing is inserted, as libCacheSim does.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/random.h"
#include "lib/kv/state/eviction.h"

namespace verbena::kv::testing_tools {

class TestCache final : public Eviction::Items {
public:
	explicit TestCache(std::size_t capacity) : eviction(capacity, *this), capacity_(capacity) {}

	// Asks for an item. Returns true if it was there.
	bool get(std::uint64_t key, std::size_t bytes = 1) {
		const auto found = items.find(key);
		if (found != items.end()) {
			eviction.use(found->second);
			return true;
		}
		while (used + bytes > capacity_ && evict()) {}
		// Elements of an unordered_map do not move.
		Item& item = items[key];
		item.key = key;
		item.bytes = bytes;
		eviction.insert(item, facts_of(item));
		used += bytes;
		return false;
	}
	bool evict() {
		Eviction::Entry* const entry = eviction.evict();
		if (entry == nullptr) return false;
		const std::uint64_t key = item_of(*entry).key;
		evicted.push_back(key);
		used -= item_of(*entry).bytes;
		items.erase(key);
		return true;
	}
	void remove(std::uint64_t key) {
		const auto found = items.find(key);
		used -= found->second.bytes;
		eviction.remove(found->second, found->second.bytes);
		items.erase(found);
	}
	bool has(std::uint64_t key) const { return items.contains(key); }

	// Eviction::Items
	Facts facts_of(Eviction::Entry& entry) override {
		std::uint64_t state = item_of(entry).key;
		return {.hash = split_mix(state), .bytes = item_of(entry).bytes};
	}
	bool stays(Eviction::Entry& entry) override { return held.contains(item_of(entry).key); }

	struct Item : Eviction::Entry {
		std::uint64_t key = 0;
		std::size_t bytes = 0;
	};
	static Item& item_of(Eviction::Entry& entry) { return static_cast<Item&>(entry); }

	Eviction eviction;
	std::unordered_map<std::uint64_t, Item> items;
	std::unordered_set<std::uint64_t> held;
	std::vector<std::uint64_t> evicted;  // in order
	std::size_t used = 0;  // bytes

private:
	std::size_t capacity_;
};

}  // namespace verbena::kv::testing_tools

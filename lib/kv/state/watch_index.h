// SPDX-License-Identifier: Apache-2.0
// WatchIndex: which watches a key belongs to. A watch is of one key, or of all keys that begin with
// a prefix, which may be empty.
//
// Threads: any one at a time; no I/O.
// Owns: nothing. Each watch is removed before it dies.
// Invariants: finding the watches of a key takes one search in the sorted texts for each watch text
//   that is a prefix of the key, and for each that only begins like it: no more than there are
//   texts, and no more than the key has bytes.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::kv {

class WatchIndex {
public:
	struct Watch {
		std::string text;  // the key or the prefix
		bool is_prefix = false;
	};

	void add(Watch& watch) {
		Entry& entry = entries_[watch.text];
		(watch.is_prefix ? entry.of_prefix : entry.of_key).push_back(&watch);
	}
	void remove(Watch& watch) {
		const auto at = entries_.find(watch.text);
		Entry& entry = at->second;
		std::erase(watch.is_prefix ? entry.of_prefix : entry.of_key, &watch);
		if (entry.of_key.empty() && entry.of_prefix.empty()) entries_.erase(at);
	}

	// Calls `see` with each watch to which the key belongs. It must not change the index.
	template <class See> void for_each_of(std::string_view key, See see) const {
		// The texts that are still to be found begin `key` and are no longer than `rest`.
		for (std::string_view rest = key;;) {
			// A text that begins `rest` is not above it, and all between the two begin with that
			// text. So the greatest text up to `rest` begins with each of them.
			const auto behind = entries_.upper_bound(rest);
			if (behind == entries_.begin()) return;
			const auto& [text, entry] = *std::prev(behind);
			const auto common = static_cast<std::size_t>(std::ranges::mismatch(text, rest).in1 - text.begin());
			if (common < text.size()) {
				rest = key.substr(0, common);
				continue;
			}
			if (text.size() == key.size())
				for (Watch* const each : entry.of_key) see(*each);
			for (Watch* const each : entry.of_prefix) see(*each);
			if (common == 0) return;
			rest = key.substr(0, common - 1);
		}
	}

	bool empty() const { return entries_.empty(); }

private:
	struct Entry {
		std::vector<Watch*> of_key, of_prefix;
	};

	std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace verbena::kv

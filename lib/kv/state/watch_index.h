// SPDX-License-Identifier: Apache-2.0
// WatchIndex: which watches a key belongs to. A watch is of one key, or of all keys that begin with
// a prefix, which may be empty.
//
// Threads: any one at a time; no I/O.
// Owns: the texts, and no watch. Each watch is removed before it dies, and before the index dies.
// Invariants: finding the watches of a key takes one search in the sorted texts for each watch text
//   that is a prefix of the key, and for each that only begins like it: no more than there are
//   texts, and no more than the key has bytes. The time of remove(), pause() and resume() does not
//   depend on the number of watches of the text.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbena::kv {

class WatchIndex {
	struct Entry;
	using Entries = std::map<std::string, Entry, std::less<>>;

public:
	class Watch {
		friend class WatchIndex;
		Entries::iterator entry_;  // that of its text
		std::uint32_t place_ = paused_place;  // in Entry::watches
		bool is_prefix_ = false;
	};

	void add(Watch& watch, std::string_view text, bool is_prefix) {
		watch.entry_ = entries_.try_emplace(std::string(text)).first;
		watch.is_prefix_ = is_prefix;
		++watch.entry_->second.holders;
		resume(watch);
	}
	void remove(Watch& watch) {
		pause(watch);
		Entry& entry = watch.entry_->second;
		std::vector<Watch*>& others = entry.watches[watch.is_prefix_];
		if (others.capacity() > 4 * others.size()) others.shrink_to_fit();
		if (--entry.holders == 0) entries_.erase(watch.entry_);
	}
	// A paused watch keeps its text in the index, and no key belongs to it.
	void pause(Watch& watch) {
		if (watch.place_ == paused_place) return;
		std::vector<Watch*>& all = watch.entry_->second.watches[watch.is_prefix_];
		all[watch.place_] = all.back();
		all[watch.place_]->place_ = watch.place_;
		all.pop_back();
		watch.place_ = paused_place;
		--size_;
	}
	void resume(Watch& watch) {
		std::vector<Watch*>& all = watch.entry_->second.watches[watch.is_prefix_];
		watch.place_ = static_cast<std::uint32_t>(all.size());
		all.push_back(&watch);
		++size_;
	}
	static std::size_t text_length(const Watch& watch) { return watch.entry_->first.size(); }

	// Calls `see` with each watch to which the key belongs. It may pause that watch, and must not
	// change the index otherwise.
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
			if (text.size() == key.size()) visit(entry.watches[0], see);
			visit(entry.watches[1], see);
			if (common == 0) return;
			rest = key.substr(0, common - 1);
		}
	}

	bool empty() const { return size_ == 0; }  // no watch, or all are paused

private:
	static constexpr std::uint32_t paused_place = ~std::uint32_t{0};
	struct Entry {
		std::array<std::vector<Watch*>, 2> watches;  // those of the text as a key, and as a prefix
		std::uint32_t holders = 0;  // watches of this text, with those that are paused
	};

	// From the end on: a watch that is paused is replaced by one that was seen.
	template <class See> static void visit(const std::vector<Watch*>& all, See& see) {
		for (std::size_t i = all.size(); i > 0; --i) see(*all[i - 1]);
	}

	Entries entries_;
	std::size_t size_ = 0;  // watches that are not paused
};

}  // namespace verbena::kv

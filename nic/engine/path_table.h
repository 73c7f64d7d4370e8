// SPDX-License-Identifier: Apache-2.0
// The UDP paths of a process, found by the addresses of both ends and the traffic class. The table
// is bounded, and an unused path leaves it after a while, so that neither strangers nor clients
// whose addresses change can fill the memory.
//
// `Path` has addresses(), which never change, and published(), the number of slots written to it.
//
// Threads: under the engine's lock.
// Owns: its paths. Those that retire_idle() and make_room() return belong to the caller.
// Invariants: at most paths_max paths. A path that is in use, as the caller's predicate says, never
//   leaves the table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "nic/wire/slot_ring.h"

namespace verbena::engine {

template <class Path> class PathTable {
public:
	static constexpr std::size_t paths_max = 1024;
	// A path to which nothing was written for this long is unused, unless something refers to it.
	static constexpr Nanoseconds idle_max = 60'000'000'000;
	// retire_idle() looks at all paths this often.
	static constexpr Nanoseconds sweep_interval = idle_max / 6;

	bool empty() const { return count_ == 0; }
	bool full() const { return count_ >= paths_max; }
	std::size_t size() const { return count_; }

	// The path with these addresses and this traffic class; null if there is none.
	Path* find(const wire::AddressPair& a) const {
		const auto at = by_ends_.find(ends_of(a.source, a.destination));
		if (at == by_ends_.end()) return nullptr;
		for (const Entry& entry : at->second)
			if (entry.path->addresses().traffic_class == a.traffic_class) return entry.path.get();
		return nullptr;
	}
	// A path between these two addresses, with any traffic class.
	Path* find_between(const wire::AddressPair& a) const { return first_of(ends_of(a.source, a.destination)); }
	// A path of which a packet with these addresses can be an answer.
	Path* find_answered_by(const wire::AddressPair& a) const { return first_of(ends_of(a.destination, a.source)); }
	// All of these, which differ in their traffic class.
	template <class Act> void for_each_answered_by(const wire::AddressPair& a, Act&& act) {
		const auto at = by_ends_.find(ends_of(a.destination, a.source));
		if (at == by_ends_.end()) return;
		for (Entry& entry : at->second) act(*entry.path);
	}

	// The table must not be full.
	Path& add(std::unique_ptr<Path> path, Nanoseconds now) {
		const wire::AddressPair& a = path->addresses();
		auto& between = by_ends_[ends_of(a.source, a.destination)];
		between.push_back({std::move(path), 0, now});
		++count_;
		if (next_sweep_ == never) next_sweep_ = now + sweep_interval;
		return *between.back().path;
	}

	// The time of the next sweep, `never` while the table is empty.
	Nanoseconds next_sweep() const { return next_sweep_; }
	// If a sweep is due: takes the unused paths out of the table. `in_use(path)` is called for
	// those that were idle for idle_max.
	template <class InUse> std::vector<std::unique_ptr<Path>> retire_idle(Nanoseconds now, InUse&& in_use) {
		std::vector<std::unique_ptr<Path>> retired;
		if (now < next_sweep_) return retired;
		note_activity(now);
		take_if(retired, [&](const Entry& entry) { return now - entry.active_at >= idle_max && !in_use(*entry.path); });
		next_sweep_ = count_ == 0 ? never : now + sweep_interval;
		return retired;
	}
	// Makes room: takes the paths out that were idle for longest among those that are not in use,
	// several because finding them takes a look at all. None if all are in use.
	template <class InUse> std::vector<std::unique_ptr<Path>> make_room(Nanoseconds now, InUse&& in_use) {
		note_activity(now);
		std::vector<Nanoseconds> idle_since;
		for (const auto& [ends, entries] : by_ends_)
			for (const Entry& entry : entries)
				if (!in_use(*entry.path)) idle_since.push_back(entry.active_at);
		std::vector<std::unique_ptr<Path>> retired;
		if (idle_since.empty()) return retired;
		const auto last =
			idle_since.begin() + static_cast<std::ptrdiff_t>(std::min(idle_since.size(), made_room_max) - 1);
		std::ranges::nth_element(idle_since, last);
		take_if(retired, [&](const Entry& entry) {
			return retired.size() < made_room_max && entry.active_at <= *last && !in_use(*entry.path);
		});
		return retired;
	}
	static constexpr std::size_t made_room_max = 64;

	template <class Act> void for_each(Act&& act) {
		for (auto& [ends, entries] : by_ends_)
			for (Entry& entry : entries) act(*entry.path);
	}

private:
	struct Ends {
		std::uint64_t words[4];  // own address, then the other one
		friend bool operator==(const Ends&, const Ends&) = default;
	};
	struct Hash {
		std::size_t operator()(const Ends& ends) const {
			std::uint64_t hash = 0;
			for (const std::uint64_t word : ends.words) {
				hash = (hash ^ word) * 0x9e3779b97f4a7c15;
				hash ^= hash >> 32;
			}
			return hash;
		}
	};
	struct Entry {
		std::unique_ptr<Path> path;
		std::uint64_t published;  // when the table last looked
		Nanoseconds active_at;  // when it last saw that this had changed
	};
	using Group = std::vector<Entry>;  // one for each traffic class

	static Ends ends_of(const std::uint8_t (&own)[16], const std::uint8_t (&other)[16]) {
		Ends ends;
		std::memcpy(ends.words, own, 16);
		std::memcpy(ends.words + 2, other, 16);
		return ends;
	}
	Path* first_of(const Ends& ends) const {
		const auto at = by_ends_.find(ends);
		return at == by_ends_.end() || at->second.empty() ? nullptr : at->second.front().path.get();
	}
	template <class Unused> void take_if(std::vector<std::unique_ptr<Path>>& taken, Unused&& unused) {
		taken.reserve(count_);  // a failure half-way would lose paths
		for (auto at = by_ends_.begin(); at != by_ends_.end();) {
			std::erase_if(at->second, [&](Entry& entry) {
				if (!unused(entry)) return false;
				taken.push_back(std::move(entry.path));
				--count_;
				return true;
			});
			at = at->second.empty() ? by_ends_.erase(at) : std::next(at);
		}
	}
	void note_activity(Nanoseconds now) {
		for (auto& [ends, entries] : by_ends_)
			for (Entry& entry : entries)
				if (const std::uint64_t published = entry.path->published(); published != entry.published)
					entry.published = published, entry.active_at = now;
	}

	std::unordered_map<Ends, Group, Hash> by_ends_;
	std::size_t count_ = 0;
	Nanoseconds next_sweep_ = never;
};

}  // namespace verbena::engine

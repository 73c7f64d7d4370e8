// SPDX-License-Identifier: Apache-2.0
// Window: the changes that were accepted and are not held yet, in the order of their acceptance. A
// change is held when every holder that is required (a journal, later the backups) has it. Only
// then it is applied, so a reader never sees a change that could still be undone.
//
// A `Change` is the owner's: what is to be applied, and who hears of it. The window knows its place
// in the order and, by the hash of its key, which change of a key is the newest. A later change is
// judged against that one.
//
// Threads: any one at a time; no I/O.
// Errors: the owner asks full() before it accepts a change.
// Invariants:
//   Changes have the positions begin() to end() - 1, in order. They leave at the begin, when they
//   are held, or at the end, when a holder has refused them. So those that stay were accepted
//   before all that were refused.
//   Nothing is allocated after the construction.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace verbena::kv {

template <class Change> class Window {
public:
	using Position = std::uint64_t;

	// `capacity` is the most changes, a power of two.
	explicit Window(std::size_t capacity) : slots_(capacity), newest_(capacity) {
		check(capacity > 0 && (capacity & (capacity - 1)) == 0, "the capacity of a window is a power of two");
	}

	bool empty() const { return begin_ == end_; }
	bool full() const { return size() == slots_.size(); }
	std::size_t size() const { return static_cast<std::size_t>(end_ - begin_); }
	Position begin() const { return begin_; }
	Position end() const { return end_; }

	// Accepts a change of a key with this hash.
	void accept(std::uint64_t hash, Change change) {
		Position& newest = newest_[hash & (newest_.size() - 1)];
		put({.change = std::move(change), .hash = hash, .older = newest, .has_key = true});
		newest = end_ - 1;
	}
	// Accepts an entry that changes no key, and waits for all changes before it.
	void follow(Change change) { put({.change = std::move(change)}); }

	// Returns the newest change of a key with this hash for which `is` returns true, or null. `is`
	// compares the keys.
	template <class Is> const Change* newest(std::uint64_t hash, Is is) const {
		// A bucket and the links refer to positions that may have left since. Positions are not
		// used again while a link refers to them: drop() restores the buckets.
		for (Position at = newest_[hash & (newest_.size() - 1)]; at >= begin_; at = slot(at).older) {
			const Slot& each = slot(at);
			if (each.hash == hash && is(each.change)) return &each.change;
		}
		return nullptr;
	}
	// Passes all changes to `see`, the oldest first.
	template <class See> void for_each(See see) {
		for (Position at = begin_; at < end_; ++at) see(slot(at).change);
	}

	// The changes before `end` are held: each leaves the window and is passed to `apply`, the
	// oldest first.
	template <class Apply> void hold(Position end, Apply apply) {
		check(begin_ <= end && end <= end_, "held changes are in the window");
		while (begin_ < end) {
			Change change = std::exchange(slot(begin_).change, Change());
			++begin_;
			apply(change);
		}
	}
	// The changes from `from` on were refused: each leaves the window and is passed to `undo`, the
	// newest first.
	template <class Undo> void drop(Position from, Undo undo) {
		check(begin_ <= from && from <= end_, "refused changes are in the window");
		while (end_ > from) {
			Slot& last = slot(end_ - 1);
			if (last.has_key) newest_[last.hash & (newest_.size() - 1)] = last.older;
			Change change = std::exchange(last.change, Change());
			--end_;
			undo(change);
		}
	}

private:
	struct Slot {
		Change change{};
		std::uint64_t hash = 0;
		Position older = 0;  // the previous change of this bucket; below begin(): none
		bool has_key = false;
	};

	void put(Slot fresh) {
		check(!full(), "a change is accepted only if there is room");
		slot(end_) = std::move(fresh);
		++end_;
	}
	Slot& slot(Position at) { return slots_[at & (slots_.size() - 1)]; }
	const Slot& slot(Position at) const { return slots_[at & (slots_.size() - 1)]; }

	std::vector<Slot> slots_;  // a ring, by the low bits of the position
	std::vector<Position> newest_;  // by the low bits of the hash; below begin(): none
	Position begin_ = 1, end_ = 1;
};

}  // namespace verbena::kv

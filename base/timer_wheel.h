// SPDX-License-Identifier: Apache-2.0
// A hierarchical timer wheel, for hundreds of thousands of timers. Entries are members of their
// owners; scheduling and cancelling are O(1), an idle wheel costs nothing, and time is an argument.
//
// Threads: one at a time.
// Owns: nothing; entries are linked into the wheel's lists.
// Lifetime: an entry is cancelled before it is destroyed (its destructor checks this), and does not
//   move while it is scheduled.
// Invariants: a deadline is rounded up to a tick (4.096 us), and one in the past to the tick after
//   the last `advance`. An entry expires in the first `advance` that is given this time or a later
//   one, so no entry expires early. Entries of one tick expire in no particular order. A callback
//   may schedule and cancel any entry, also its own; an entry that a callback schedules expires in
//   a later `advance`, not in the current one.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"

namespace verbena {

namespace detail {
// A link of a circular doubly linked list. The list's head is a link that is not an entry.
struct TimerLink {
	TimerLink* next = nullptr;
	TimerLink* previous = nullptr;

	void become_empty() { next = previous = this; }
	bool empty() const { return next == this; }
	void insert_before(TimerLink* other) {
		next = other;
		previous = other->previous;
		previous->next = other->previous = this;
	}
	void unlink() {
		previous->next = next;
		next->previous = previous;
		next = previous = nullptr;
	}
};
}  // namespace detail

class TimerEntry : private detail::TimerLink {
public:
	TimerEntry() = default;
	~TimerEntry() { check(!scheduled(), "a timer is cancelled before its owner dies"); }
	TimerEntry(const TimerEntry&) = delete;
	TimerEntry& operator=(const TimerEntry&) = delete;

	bool scheduled() const { return next != nullptr; }

private:
	friend class TimerWheel;
	std::uint64_t tick_ = 0;
};

class TimerWheel {
public:
	static constexpr unsigned tick_shift = 12;
	static constexpr Nanoseconds tick = Nanoseconds{1} << tick_shift;

	explicit TimerWheel(Nanoseconds now) : elapsed_(now >> tick_shift), earliest_(elapsed_) {
		for (Level& level : levels_)
			for (detail::TimerLink& slot : level.slots) slot.become_empty();
	}
	TimerWheel(const TimerWheel&) = delete;
	TimerWheel& operator=(const TimerWheel&) = delete;

	std::size_t size() const { return size_; }

	// Schedules the entry, or moves it to another deadline. `never` only cancels.
	void schedule(TimerEntry& entry, Nanoseconds deadline) {
		cancel(entry);
		if (deadline == never) return;
		const std::uint64_t tick = (deadline >> tick_shift) + ((deadline & (TimerWheel::tick - 1)) != 0);
		entry.tick_ = tick < earliest_ ? earliest_ : tick;
		place(entry);
		++size_;
	}

	void cancel(TimerEntry& entry) {
		if (!entry.scheduled()) return;
		detail::TimerLink* const previous = entry.previous;
		entry.unlink();
		--size_;
		if (previous->empty()) forget(previous);
	}

	// Expires all entries whose tick is not after `now`, in the order of their ticks: unlinks each
	// entry, so that it is no longer scheduled, and then calls `callback(TimerEntry&)`. If `now` is
	// before the time of an earlier call, nothing happens.
	template <class Callback> void advance(Nanoseconds now, Callback&& callback) {
		const std::uint64_t target = now >> tick_shift;
		if (target < elapsed_) return;
		earliest_ = target + 1;
		for (Position at = first(); at.level != level_count && at.tick <= target; at = first()) {
			elapsed_ = at.tick;
			detail::TimerLink due;
			take(at, due);
			while (!due.empty()) {
				TimerEntry& entry = static_cast<TimerEntry&>(*due.next);
				entry.unlink();
				if (entry.tick_ > elapsed_) {
					place(entry);  // from a coarser level; moves down at least one level
				} else {
					--size_;
					callback(entry);
				}
			}
		}
		elapsed_ = target;
	}

	// The time at which to call `advance` next, or `never` if nothing is scheduled. This time is
	// never after the tick of the earliest entry. If it is before that tick, the call of `advance`
	// only moves entries to finer levels, and next_expiry() then returns a later time.
	Nanoseconds next_expiry() const {
		if (size_ == 0) return never;  // each pass asks, and most wheels are empty
		const Position at = first();
		return at.level == level_count ? never : at.tick << tick_shift;
	}

private:
	// A slot of level k spans 64^k ticks. Nine levels cover numbers of 54 bits; that of a tick has
	// 52.
	static constexpr unsigned level_bits = 6, level_count = 9, slot_count = 1 << level_bits;

	struct Level {
		std::uint64_t occupied = 0;  // a bit for each slot that is not empty
		std::array<detail::TimerLink, slot_count> slots;
	};
	struct Position {
		unsigned level;
		unsigned slot;
		std::uint64_t tick;  // the first tick of the slot
	};

	// An entry's level is the place of the highest digit (base 64) in which its tick differs from
	// `elapsed_`, and its slot is the value of that digit of its tick.
	void place(TimerEntry& entry) {
		const std::uint64_t difference = entry.tick_ ^ elapsed_;
		const unsigned level =
			difference == 0 ? 0 : (63 - static_cast<unsigned>(std::countl_zero(difference))) / level_bits;
		const unsigned slot = entry.tick_ >> level * level_bits & (slot_count - 1);
		entry.insert_before(&levels_[level].slots[slot]);
		levels_[level].occupied |= std::uint64_t{1} << slot;
	}

	// The used slot that begins first. Used slots of a finer level begin before those of a coarser
	// one, and within a level no used slot has a smaller number than the digit of `elapsed_`.
	Position first() const {
		for (unsigned level = 0; level < level_count; ++level) {
			if (levels_[level].occupied == 0) continue;
			const unsigned slot = static_cast<unsigned>(std::countr_zero(levels_[level].occupied));
			const unsigned shift = level * level_bits;
			const std::uint64_t above = elapsed_ >> (shift + level_bits) << (shift + level_bits);
			return {level, slot, above | std::uint64_t{slot} << shift};
		}
		return {level_count, 0, 0};
	}

	// Moves the entries of a slot to the empty `list`.
	void take(const Position& at, detail::TimerLink& list) {
		detail::TimerLink& slot = levels_[at.level].slots[at.slot];
		levels_[at.level].occupied &= ~(std::uint64_t{1} << at.slot);
		list.insert_before(&slot);
		slot.unlink();
		slot.become_empty();
	}

	// cancel() has emptied the list whose head is `link`. If the list is a slot's, this clears the
	// slot's bit; otherwise it is the list on which `advance` is working.
	void forget(const detail::TimerLink* link) {
		for (Level& level : levels_) {
			if (link < level.slots.data() || link >= level.slots.data() + slot_count) continue;
			level.occupied &= ~(std::uint64_t{1} << (link - level.slots.data()));
			return;
		}
	}

	std::array<Level, level_count> levels_;
	std::uint64_t elapsed_;  // the time of the last advance(), in ticks
	std::uint64_t earliest_;  // the first tick for which an entry may be scheduled
	std::size_t size_ = 0;
};

}  // namespace verbena

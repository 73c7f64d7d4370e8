// SPDX-License-Identifier: Apache-2.0
// Expiry: finds the items whose time has come, for items of which there may be millions.
//
// Items whose times lie close together share a group, and only the groups have timers. So it costs
// the same to schedule an item whatever its time, nothing is sorted, and when the time of a million
// items has come, they wait in one list, from which the owner takes a few at a time.
//
// Threads: any one at a time. No I/O, and time is an argument.
// Owns: nothing; an Entry is a part of its item.
// Lifetime: an entry that waits is cancelled before its item dies.
// Invariants:
//   next_due() returns an entry late, see late_max(). So a reader of an item compares its time with
//   the clock.
//   An entry may come early if it is more than 2^52 ns ahead. Then the owner schedules it again.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>

#include "base/timer_wheel.h"

namespace verbena::kv {

class Expiry {
public:
	struct Entry {
		Entry* next = nullptr;  // null: the entry does not wait
		Entry* previous = nullptr;
		Nanoseconds at = 0;  // the time of the item, for the owner; not read here

		bool waits() const { return next != nullptr; }
	};

	// The most by which next_due() returns an entry late that was scheduled for `left` from now on.
	// The time that passes until the next advance() is added.
	static constexpr Nanoseconds late_max(Nanoseconds left) {
		return std::max(left >> (part_bits - 1), Nanoseconds{1} << length_bits_min);
	}

	explicit Expiry(Nanoseconds now);
	~Expiry();
	Expiry(const Expiry&) = delete;
	Expiry& operator=(const Expiry&) = delete;

	// Lets next_due() return the entry after this time. An entry that waits is moved.
	void schedule(Entry& entry, Nanoseconds when);
	// Nothing happens if the entry does not wait.
	static void cancel(Entry& entry);
	// The bytes of the entry have been moved to here.
	static void relocated(Entry& entry);

	// Announces the time.
	void advance(Nanoseconds now);
	// Takes an entry whose time has come; null: there is none.
	Entry* next_due();
	// The time at which next_due() may return an entry, or before it; `never`: no entry waits.
	Nanoseconds next() const { return due_.next != &due_ ? 0 : wheel_.next_expiry(); }
	Nanoseconds now() const { return now_; }  // as announced

private:
	// A list of entries is circular and has one entry that is no item's.
	static void become_empty(Entry& list) { list.next = list.previous = &list; }
	static void append(Entry& list, Entry& entry);

	struct Group : TimerEntry {
		Entry list;
	};
	// Groups of one length lie next to each other. A length is a power of two, from 2^23 to 2^47
	// nanoseconds, and at most 1/32 of the time until its items come. So no more than 65 groups of
	// a length are in use, and the number of a group modulo 128 is unique.
	static constexpr unsigned part_bits = 6, length_bits_min = 23, length_bits_max = 47;
	static constexpr std::size_t groups_each = 128;
	static constexpr Nanoseconds ahead_max = Nanoseconds{1} << (length_bits_max + part_bits - 1);
	using Groups = std::array<Group, (length_bits_max - length_bits_min + 1) * groups_each>;

	Nanoseconds now_;
	TimerWheel wheel_;
	std::unique_ptr<Groups> groups_;  // made for the first entry
	Entry due_;
};

}  // namespace verbena::kv

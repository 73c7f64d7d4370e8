// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/state/expiry.h"

#include <bit>

namespace verbena::kv {

Expiry::Expiry(Nanoseconds now) : now_(now), wheel_(now) { become_empty(due_); }

Expiry::~Expiry() {
	check(due_.next == &due_, "an entry is cancelled before its expiry dies");
	if (!groups_) return;
	for (Group& group : *groups_) {
		check(group.list.next == &group.list, "an entry is cancelled before its expiry dies");
		wheel_.cancel(group);
	}
}

void Expiry::append(Entry& list, Entry& entry) {
	entry.next = &list;
	entry.previous = list.previous;
	entry.previous->next = list.previous = &entry;
}

void Expiry::schedule(Entry& entry, Nanoseconds when) {
	cancel(entry);
	if (!groups_) {
		groups_ = std::make_unique<Groups>();
		for (Group& group : *groups_) become_empty(group.list);
	}
	const Nanoseconds time = std::clamp(when, now_, now_ + ahead_max);
	const auto bits = static_cast<unsigned>(std::bit_width(time - now_));
	const unsigned length_bits = std::max(bits, length_bits_min + part_bits) - part_bits;
	// The group is due at the end of the interval in which that lies.
	const std::uint64_t number = (time >> length_bits) + 1;
	Group& group = (*groups_)[(length_bits - length_bits_min) * groups_each + number % groups_each];
	append(group.list, entry);
	if (!group.scheduled()) wheel_.schedule(group, number << length_bits);
}

void Expiry::cancel(Entry& entry) {
	if (!entry.waits()) return;
	entry.next->previous = entry.previous;
	entry.previous->next = entry.next;
	entry.next = entry.previous = nullptr;
}

void Expiry::relocated(Entry& entry) {
	if (!entry.waits()) return;
	entry.next->previous = entry.previous->next = &entry;
}

void Expiry::advance(Nanoseconds now) {
	now_ = std::max(now_, now);
	wheel_.advance(now_, [&](TimerEntry& timer) {
		Entry& list = static_cast<Group&>(timer).list;
		if (list.next == &list) return;
		// The whole list moves to the end of the due entries.
		list.next->previous = due_.previous;
		due_.previous->next = list.next;
		list.previous->next = &due_;
		due_.previous = list.previous;
		become_empty(list);
	});
}

Expiry::Entry* Expiry::next_due() {
	Entry* const entry = due_.next;
	if (entry == &due_) return nullptr;
	cancel(*entry);
	return entry;
}

}  // namespace verbena::kv

// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/member.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/boot_time.h"
#include "lib/kv/placement.h"
#include "lib/kv/wall_clock.h"

namespace verbena::kv {
namespace {

// Buckets of the table in one step of the walk.
constexpr std::size_t buckets_at_once = 512;

}  // namespace

Standing Member::standing(std::string_view key) const { return ownership_.standing(slot_of(key), boot_now()); }

void Member::handle_look(const discovery::Look& look, Nanoseconds now) {
	++looks_;
	lease_s_max_ = std::max(lease_s_max_, look.lease_s_max);
	Ownership::Look seen{.assigned = {}, .asked = look.asked, .wait = seconds(lease_s_max_)};
	if (look.entered)
		for (std::size_t slot = 0; slot < slot_count; ++slot)
			seen.assigned[slot] = look.names[owner_of_slot(look.names, slot)] == name_;
	ownership_.handle_look(seen, now);
}

MemberFacts Member::facts() const {
	return {.slots = ownership_.owned(),
		.slots_waiting = ownership_.waiting(),
		.looks = looks_,
		.lapses = ownership_.lapses(),
		.dropped = dropped_,
		.valid = boot_now() < ownership_.until()};
}

void Member::handle_time(Nanoseconds now) {
	// The versions of a slot's keys shall be above those that its owner before has given, also in
	// the eyes of a client with a CAS. That owner began with the time, too.
	if (ownership_.handle_time(now)) store_.begin_versions(wall_now());
}

bool Member::drop_some() {
	if (!ownership_.sweeping()) return false;
	if (!std::exchange(walking_, true)) {
		walk_number_ = ownership_.sweep();
		walk_ = {};
	}
	std::vector<std::string> lost;
	walk_ = store_.scan(walk_, buckets_at_once, [&](std::string_view key) {
		if (!ownership_.keeps(slot_of(key))) lost.emplace_back(key);
		return true;
	});
	for (const std::string& key : lost) dropped_ += store_.lose(key) ? 1 : 0;
	if (walk_ == ScanCursor{}) {
		walking_ = false;
		ownership_.swept(walk_number_);
	}
	return true;
}

}  // namespace verbena::kv

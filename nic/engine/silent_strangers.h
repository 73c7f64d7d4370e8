// SPDX-License-Identifier: Apache-2.0
// The users whose processes have left a greeting unanswered. An engine makes one link at a time, so
// a stranger that never answers holds up the links to others; it may do that once in a while, and
// not once for each of its blocks of queue pair numbers.
//
// Threads: one at a time; the caller of connect_to() holds the engine's connect_mutex_.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <vector>

#include "base/time.h"

namespace verbena::engine {

class SilentStrangers {
public:
	// Ten times the patience for a stranger, so that its silence takes a tenth of the time.
	static constexpr Nanoseconds remembered = 20'000'000'000;
	static constexpr std::size_t users_max = 64;

	// True if a process of the user was silent lately.
	bool contains(uid_t user, Nanoseconds now) const {
		const auto at = std::ranges::find(users_, user, &Silence::user);
		return at != users_.end() && now < at->until;
	}
	void note(uid_t user, Nanoseconds now) {
		forget(user);
		if (users_.size() == users_max) users_.erase(users_.begin());
		users_.push_back({user, now + remembered});
	}
	void forget(uid_t user) {
		std::erase_if(users_, [=](const Silence& silence) { return silence.user == user; });
	}

private:
	struct Silence {
		uid_t user;
		Nanoseconds until;
	};
	std::vector<Silence> users_;  // the oldest first
};

}  // namespace verbena::engine

// SPDX-License-Identifier: Apache-2.0
// The users whose processes leave greetings unanswered. An engine makes one link at a time, and a
// server may connect on the thread that serves all of its clients. So the processes of a stranger
// that never answer hold others up for at most a tenth of the time: once for `patience`, then for
// `brief_patience` once in each `pause`.
//
// Threads: one at a time; the caller of connect_to() holds the engine's connect_mutex_.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/time.h"

namespace verbena::engine {

class SilentStrangers {
public:
	static constexpr Nanoseconds patience = 2'000'000'000, remembered = 20'000'000'000;
	static constexpr Nanoseconds brief_patience = 100'000'000, pause = 1'000'000'000;
	static constexpr std::size_t users_max = 64;

	// The time for which a caller may wait for a process of the user, 0 if not at all; it is 0 for
	// a user that was silent lately if the caller is not `patient`. The user counts as silent from
	// now on, until forget().
	Nanoseconds begin(uid_t user, bool patient, Nanoseconds now) {
		const auto at = std::ranges::find(users_, user, &Silence::user);
		if (at == users_.end() || at->until <= now) {
			forget(user);
			if (users_.size() == users_max) users_.erase(users_.begin());
			users_.push_back({.user = user, .until = now + remembered, .next = now + patience + pause});
			return patience;
		}
		if (!patient || now < at->next) return 0;
		at->next = now + pause;
		at->until = now + remembered;
		return brief_patience;
	}
	// A process of the user has answered.
	void forget(uid_t user) {
		std::erase_if(users_, [=](const Silence& silence) { return silence.user == user; });
	}
	bool contains(uid_t user) const { return std::ranges::find(users_, user, &Silence::user) != users_.end(); }

private:
	struct Silence {
		uid_t user;
		Nanoseconds until;
		Nanoseconds next;  // when a patient caller may wait briefly again
	};
	std::vector<Silence> users_;  // the oldest first
};

}  // namespace verbena::engine

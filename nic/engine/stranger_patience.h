// SPDX-License-Identifier: Apache-2.0
// The time for which this process still waits for processes of other users. An engine makes one
// link at a time, and a server may connect on the thread that serves all of its clients. So the
// processes of one user that answer late, or never, hold others up for `full` once, and then for a
// tenth of the time. An answer gives nothing back, or it could come late each time.
//
// Threads: one at a time; the caller of connect_to() holds the engine's connect_mutex_.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/time.h"

namespace verbena::engine {

class StrangerPatience {
public:
	static constexpr Nanoseconds full = 2'000'000'000;
	// A process that answers at all does so in this time; with less there is no point in asking.
	static constexpr Nanoseconds least = 100'000'000;
	static constexpr std::size_t users_max = 64;

	// The time to wait for a process of the user: `least` to `full`, or 0.
	Nanoseconds left(uid_t user, Nanoseconds now) const {
		const Nanoseconds has = account_of(user).at(now);
		return has < least ? 0 : has;
	}
	void spend(uid_t user, Nanoseconds waited, Nanoseconds now) {
		const Nanoseconds had = account_of(user).at(now);
		const Account spent{user, had - std::min(had, waited), now};
		auto at = std::ranges::find(users_, user, &Account::user);
		if (at == users_.end() && users_.size() < users_max) return users_.push_back(spent);
		// The user who has most gains least when it is forgotten.
		if (at == users_.end())
			at = std::ranges::max_element(users_, {}, [now](const Account& account) { return account.at(now); });
		*at = spent;
	}

private:
	struct Account {
		uid_t user;
		Nanoseconds had, then;
		Nanoseconds at(Nanoseconds now) const { return std::min(had + (now - std::min(now, then)) / 10, full); }
	};
	Account account_of(uid_t user) const {
		const auto at = std::ranges::find(users_, user, &Account::user);
		return at == users_.end() ? Account{user, full, 0} : *at;
	}

	std::vector<Account> users_;
};

}  // namespace verbena::engine

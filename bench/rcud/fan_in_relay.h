// SPDX-License-Identifier: Apache-2.0
// One watcher for several senders, each in a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "bench/rcud/traffic.h"

namespace verbena::rcud {

// Reports to the senders in other threads what the watcher saw, and to the watcher their question
// whether the receiver is idle.
class Relay {
public:
	explicit Relay(const Watcher& watcher) : watcher_(watcher) {}

	// In the thread of the first sender.
	Watch look(bool silent) {
		const Watch seen = watcher_(asked_.exchange(false) || silent);
		if (seen == Watch::finished) finished_.store(true);
		if (seen == Watch::abandon) abandoned_.store(true);
		if (seen == Watch::receiver_idle) idle_answers_.fetch_add(1);
		return abandoned_.load() ? Watch::abandon : seen;
	}

	// In the thread of another sender, whose own `answers_seen` begins at 0.
	Watch look_from_beside(bool silent, std::uint32_t& answers_seen) {
		if (silent) asked_.store(true);
		if (abandoned_.load()) return Watch::abandon;
		if (finished_.load()) return Watch::finished;
		const std::uint32_t answers = idle_answers_.load();
		const bool answered = std::exchange(answers_seen, answers) != answers;
		return silent && answered ? Watch::receiver_idle : Watch::go_on;
	}

	void abandon() { abandoned_.store(true); }

private:
	const Watcher& watcher_;
	std::atomic<bool> asked_ = false, finished_ = false, abandoned_ = false;
	std::atomic<std::uint32_t> idle_answers_ = 0;
};

}  // namespace verbena::rcud

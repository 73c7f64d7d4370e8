// SPDX-License-Identifier: Apache-2.0
// One run of many clients: starts an echo server in a process of its own (or uses one elsewhere)
// and the clients in other processes, watches them, and combines what both counted.
// `performance_test` prints one run; `verbena bench scale` has a row for several.
//
// Threads: one thread; with `metrics`, one more that answers scrapes.
// Invariants: the caller must make no verbs call before a run or between runs. The processes are
//   forked, and a forked process cannot use its parent's devices.
// Errors: one sentence for the user. Clients that fail are counted in the Outcome.
#pragma once

#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/scale/outcome.h"
#include "bench/scale/server_process.h"

namespace verbena::scale {

// The state of a run, reported about ten times a second.
struct Moment {
	const char* doing = "";  // connecting, connected (reported once), warming up, measuring, ending
	std::uint32_t connected = 0, clients = 0;
	Nanoseconds since = 0;  // time since the start of the run
};

// Whether the server is idle at `now`: all clients are still connected for a while after the last
// echo, at `ended`, if they hold their connections that long.
constexpr bool is_idle_time(Nanoseconds now, Nanoseconds ended, Nanoseconds hold) {
	return hold > 0 && now <= ended + hold * 9 / 10;
}

// Runs the cell once, and returns when all its processes have ended. `tell` gets the progress.
std::expected<Outcome, std::string> run_cell(const RunOptions& options, const std::function<void(const Moment&)>& tell);

}  // namespace verbena::scale

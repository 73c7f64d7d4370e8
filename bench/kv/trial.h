// A trial: one server process and one process of clients, for any number of runs. Both are forked,
// so that they share nothing but the machine.
//
// Threads: one. The caller makes no verbs call before a trial or between trials, because a forked
//   process cannot use its parent's devices.
// Owns: the processes, which end with the call, also on error.
#pragma once

#include <expected>
#include <functional>
#include <string>
#include <vector>

#include "bench/kv/cell.h"
#include "lib/channel/connect.h"
#include "lib/kv/settings.h"

namespace verbena::kvbench {

struct TrialOptions {
	kv::Settings settings;  // for both sides, except that `memory` is the server's
	channel::Protection server_protection, client_protection;
	std::string device;
	bool tcp = false;
	// The number of further clients, each in a process of its own, which is stopped (SIGSTOP) in
	// the middle of a rendezvous before the measurement begins.
	std::uint32_t stalled = 0;
	Nanoseconds spin = 50'000;
};

// The counts that the two processes report at the end, for a comparison of both sides.
struct Account {
	std::uint64_t client_operations = 0, server_requests = 0;  // a SET_WRITE takes two requests
	std::uint64_t server_written = 0, releases = 0;
	std::uint64_t server_registrations = 0;
	std::uint64_t keys = 0, used_bytes = 0;
	std::string device, gid;
	std::uint32_t mtu = 0;
};

struct Trial {
	// The repetitions of each cell; fewer than requested if the trial was ended early.
	std::vector<std::vector<Run>> runs;
	Account account;
};

// Runs all cells in turn, `repetitions` times. Calls `is_wanted` with the cell before each run; if
// that returns false, the trial ends early. The error is one sentence.
std::expected<Trial, std::string> run_trial(const TrialOptions& options, const std::vector<Cell>& cells,
	std::uint32_t repetitions, const std::function<bool(const Cell&)>& is_wanted);

}  // namespace verbena::kvbench

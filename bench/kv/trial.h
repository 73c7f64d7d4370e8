// One server and one process of clients, for any number of runs: forked, so that server and clients share nothing but
// the machine.
//
// The caller makes no verbs call before or between: a forked process cannot use its parent's devices.
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
	kv::Settings settings;  // of both sides
	channel::Protection server_protection, client_protection;
	std::string device;
	bool tcp = false;
	// Further clients, each in a process that is stopped (SIGSTOP) in the middle of its rendezvous before anything is
	// measured.
	std::uint32_t stalled = 0;
	Nanoseconds spin = 50'000;
};

// What the two processes told at the end.
struct Account {
	std::uint64_t client_operations = 0, server_requests = 0;  // set_write has two requests
	std::uint64_t server_written = 0, releases = 0;
	std::uint64_t server_registrations = 0;
	std::uint64_t keys = 0, used_bytes = 0;
	std::string device, gid;
	std::uint32_t mtu = 0;
};

struct Trial {
	std::vector<std::vector<Run>> runs;  // of each cell, its repetitions; fewer than wanted, if it was ended early
	Account account;
};

// Runs the cells in turn, so many times. `goes_on` is asked before each run, which it is told the cell of; false ends
// the trial early.
std::expected<Trial, std::string> run_trial(const TrialOptions& options, const std::vector<Cell>& cells,
	std::uint32_t repetitions, const std::function<bool(const Cell&)>& goes_on);

}  // namespace verbena::kvbench

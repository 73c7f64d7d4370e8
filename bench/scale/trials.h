// SPDX-License-Identifier: Apache-2.0
// The cells of this experiment, as trials of a sweep (bench/sweep).
//
// Threads: one thread. The trials fork, so their process must make no verbs call.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/scale/server_process.h"
#include "bench/sweep/sweep.h"

namespace verbena::scale {

// The wishes of the command line: a cell for each combination of the lists.
struct Cells {
	std::vector<std::uint64_t> clients, rates, queue_pairs, stalled;
	std::vector<Transport> transports;
	std::vector<ConnectBy> connects;
	std::vector<Engine> engines;
	std::uint32_t messages = 0, size = 64, window = 1, processes = 0, poll_us = 50, handshakes = 64;
	double seconds = 2, warmup_s = 0.5;
	bool with_redis = false, capacity = false, ablation = false;
};

// A setting is an option that changes what is measured, and no column that names a cell.
std::string settings_of(const Cells& cells);

struct Protections {
	channel::Protection client, server;
};

// The first source address of the clients of a run (SwarmOptions::first_address). Each run has
// addresses of its own, so that sockets in TIME_WAIT of the runs before it take no ports from it.
constexpr std::uint32_t first_address_of(std::uint32_t run) { return run % 1000 * 16; }

// Reports to the user that clients failed; such a row is measured, and suspect.
using Report = std::function<void(const std::string& sentence)>;

// All cells in the order of the table:
// - the combinations of the lists;
// - with `ablation`, after each RDMA cell the same one without each optimization;
// - with `capacity` instead, two cells for each kind of client, one with few clients and one with
//   many: the slope between them is the cost of one more client (bench/scale/capacity.h);
// - with `with_redis`, redis with each number of clients.
std::vector<std::unique_ptr<bench::Trial>> trials_of(
	const Cells& cells, const Protections& protections, const Report& report);

}  // namespace verbena::scale

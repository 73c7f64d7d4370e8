// SPDX-License-Identifier: Apache-2.0
// Complete simulated runs: two hosts with checked traffic over one or more connections, from the
// first packet until nothing is left to happen.
#pragma once

#include <string>

#include "nic/sim/traffic.h"

namespace verbena::sim {

struct ConversationOptions {
	TrafficOptions traffic;
	Faults faults;
	ConnectionOptions connection;
	bool lossless = false;
	int connections = 1;  // between the two hosts
	bool both_ways = true;
	Nanoseconds batch = 0;
	std::uint32_t send_entries = 32, receive_entries = 32;
	Nanoseconds forge_distance = 0;  // between forged NAKs for each queue pair, on average; 0: none
	std::uint64_t seed = 1;
};

struct Outcome {
	bool good = false;
	std::string report;  // one line for each problem; empty if good
	Fabric::Statistics statistics;
	transport::Counters counters;  // those of the first host
	Nanoseconds took = 0;  // virtual time
	std::uint64_t forged = 0;  // NAKs
};

Outcome converse(const ConversationOptions& options);

// Draws all options of a run from the seed: path MTU, sizes, mix, PSNs, queue depths, and faults up
// to the given probabilities. `forged_max`: the highest rate of forged NAKs for a queue pair, in
// 1/ms.
ConversationOptions drawn(std::uint64_t seed, const Faults& faults_max, bool lossless, double forged_max = 0);

}  // namespace verbena::sim

// Whole runs: pairs of hosts that talk in both directions, from the first packet to silence, judged.
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
	std::uint64_t seed = 1;
};

struct Outcome {
	bool good = false;
	std::string report;  // what was wrong
	Fabric::Statistics statistics;
	transport::Counters counters;  // of the first host
	Nanoseconds took = 0;          // virtual
};

Outcome converse(const ConversationOptions& options);

// A conversation in which everything that can vary is drawn from the seed: path MTU, sizes, mix, PSNs, queue depths,
// faults up to the given ones.
ConversationOptions drawn(std::uint64_t seed, const Faults& faults_max, bool lossless);

}  // namespace verbena::sim

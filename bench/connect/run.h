// SPDX-License-Identifier: Apache-2.0
// One repetition: makes `count` connections with `clients` connects under way at once, keeps all of
// them until the last one is established, and then disconnects all in the same way.
//
// Threads: one thread.
// Errors: bench::Failure from the connector.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/histogram.h"
#include "bench/connect/connector.h"

namespace verbena::connect {

// The result of a repetition. Each histogram has one value for each connection, in nanoseconds.
struct Repetition {
	std::uint32_t clients = 0, count = 0;
	// Elapsed, from the first begin() to the last report.
	Nanoseconds connect_elapsed_ns = 0, disconnect_elapsed_ns = 0;
	Histogram total, disconnect;
	Nanoseconds total_sum_ns = 0, disconnect_sum_ns = 0;  // the exact sums
	std::array<Histogram, part_names.size()> parts;
	Account account;  // the server's counts of this repetition
	std::optional<double> round_trip_ns;  // core to core, if both ends are on one host
	std::string failure;  // empty if nothing failed
};

// The two halves of a repetition. The caller asks the server for its account after each.
void connect_all(Connector& connector, Repetition& repetition);
void disconnect_all(Connector& connector, Repetition& repetition);

}  // namespace verbena::connect

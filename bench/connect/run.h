// One repetition: makes `count` connections with `clients` connects under way at once, keeps all of
// them until the last one is established, and then disconnects all in the same way.
//
// Threads: one thread.
// Errors: bench::Failure from the connector.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/connect/connector.h"

namespace verbena::connect {

// The result of a repetition. Times are in nanoseconds, one value for each connection.
struct Repetition {
	std::uint32_t clients = 0, count = 0;
	double connect_s = 0, disconnect_s = 0;  // elapsed, from the first begin() to the last report
	std::vector<double> total_ns, disconnect_ns;
	std::array<std::vector<double>, parts_max> part_ns;
	Account account;  // the server's counts of this repetition
	std::optional<double> round_trip_ns;  // core to core, if both ends are on one host
	std::string failure;  // empty if nothing failed

	double connects_per_s() const { return connect_s > 0 ? count / connect_s : 0; }
	double disconnects_per_s() const { return disconnect_s > 0 ? count / disconnect_s : 0; }
};

// The two halves of a repetition. The caller asks the server for its account after each.
void connect_all(Connector& connector, Repetition& repetition);
void disconnect_all(Connector& connector, Repetition& repetition);

// The smallest of the values that at least `fraction` of them do not exceed. `values` must not be
// empty.
double quantile(std::vector<double> values, double fraction);

}  // namespace verbena::connect

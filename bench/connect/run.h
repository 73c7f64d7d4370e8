// One repetition: `count` connections, `clients` of them under way at once, all kept until the last is there, and then
// ended in the same way.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/connect/connector.h"

namespace verbena::connect {

// What a repetition found. Times are nanoseconds, one value a connection.
struct Repetition {
	std::uint32_t clients = 0, count = 0;
	double connect_s = 0, disconnect_s = 0;  // elapsed, from the first beginning to the last end
	std::vector<double> total_ns, disconnect_ns;
	std::array<std::vector<double>, parts_max> part_ns;
	Account account;  // the other end's, of this repetition alone
	std::optional<double> round_trip_ns;
	std::string failure;

	double connects_per_s() const { return connect_s > 0 ? count / connect_s : 0; }
	double disconnects_per_s() const { return disconnect_s > 0 ? count / disconnect_s : 0; }
};

// The two halves; the caller asks the other end for its account after each.
void connect_all(Connector& connector, Repetition& repetition);
void disconnect_all(Connector& connector, Repetition& repetition);

// The value below which `fraction` of the values lie; of a few values the nearest one above. Not of nothing.
double quantile(std::vector<double> values, double fraction);

}  // namespace verbena::connect

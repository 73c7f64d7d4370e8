// SPDX-License-Identifier: Apache-2.0
// The result of a run: the counts of the clients and of our own server's process. The figures that
// follow from them are those of its repetition (repetition.h) and its row (rows.h).
//
// Threads: values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/scale/cell.h"
#include "bench/scale/process_use.h"

namespace verbena::scale {

// A sample of the server's and the clients' processes at one instant.
struct Sample {
	Nanoseconds at = 0;
	std::uint64_t echoed = 0;  // the server's count
	ProcessUse server, clients;
};

// The report of our own server's process.
struct ServerAccount {
	channel::Path path;
	ProcessUse before, connected, after;  // before the first client, with all of them, at the end
	// The kernel's memory for sockets of this host, in bytes.
	std::uint64_t kernel_before = 0, kernel_connected = 0;
	std::uint64_t threads_peak = 0;
	std::uint64_t peak = 0, echoed = 0, lost = 0, refused = 0;  // peak: clients at once, at most
	// Why its engine is not the one asked for; empty if it is.
	std::string engine_fallback_reason;
	std::uint64_t queue_pairs_max = 0;  // that the device allows
	// The queue pairs at once, at most, and the different labels of logical clients.
	std::uint64_t queue_pairs = 0, labels = 0;
	channel::RcCounters counters;
};

struct Outcome {
	Cell cell;  // with the engine in use
	channel::Path path;  // transport and device of the clients

	std::vector<ClientRow> rows;
	Histogram connect, latency;  // ns
	std::uint64_t connect_sum_ns = 0, latency_sum_ns = 0;
	std::uint64_t connected = 0, good = 0, echoes = 0, failures[causes] = {};
	std::vector<std::string> first_failures;  // the first failure of each process that had one

	std::uint64_t connecting_ns = 0;  // from the first SYN to the last client that is ready
	std::uint64_t messages_ns = 0;    // from the first message to the last echo
	// The beginning and the end of the measured time: of all messages or, with a duration, of the
	// time between the warm-up and the first client's end.
	Sample from, to;
	Sample idle_from, idle_to;  // with a hold: while all are connected and idle
	std::optional<ServerAccount> server;
	std::optional<double> round_trip_ns;  // core to core, if the caller measured it

	std::uint64_t window_ns() const { return to.at - from.at; }
};

}  // namespace verbena::scale

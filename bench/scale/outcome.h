// The result of a run: the counts of the clients and of our own server's process, and the figures
// that follow from them.
//
// Threads: values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/scale/echo_service.h"
#include "bench/scale/process_use.h"
#include "bench/scale/swarm.h"

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
	Transport transport = Transport::rdma;
	ConnectBy connect_by = ConnectBy::tls_psn;
	Engine engine = Engine::epoll;  // the one in use
	std::uint32_t stalled = 0;
	Without without = Without::nothing;
	bool in_clear = false;
	std::uint32_t clients = 0, queue_pairs = 0, window = 1, messages = 0,
				  message_bytes = 0;  // queue_pairs: shared, or 0
	std::uint32_t handshakes = 0;  // set-ups at once in one process of clients; 0: all
	double think_ms = 0, stagger_ms = 0, rate = 0, warmup_s = 0, seconds = 0;

	channel::Path path;  // transport and device of the clients

	std::vector<ClientRow> rows;
	Histogram connect, latency;  // ns
	double connect_sum_ms = 0, latency_sum_ms = 0;
	std::uint64_t connected = 0, good = 0, echoes = 0, failures[causes] = {};
	std::vector<std::string> first_failures;  // the first failure of each process that had one

	double connecting_s = 0;   // from the first SYN to the last client that is ready
	double messages_s = 0;     // from the first message to the last echo
	// The beginning and the end of the measured time: of all messages or, with a duration, of the
	// time between the warm-up and the first client's end.
	Sample from, to;
	Sample idle_from, idle_to;  // with a hold: while all are connected and idle
	std::optional<ServerAccount> server;
	std::optional<double> round_trip_ns;  // core to core, if the caller measured it

	bool timed() const { return seconds > 0; }
	double window_s() const { return static_cast<double>(to.at - from.at) / 1e9; }
	// Echoes a second: with a duration, the server's count between `from` and `to`; else all echoes
	// over the time from the first message to the last echo.
	double messages_per_s() const;
	double connections_per_s() const { return connecting_s > 0 ? static_cast<double>(connected) / connecting_s : 0; }
	double mean_connect_ms() const { return connected > 0 ? connect_sum_ms / static_cast<double>(connected) : 0; }
	double mean_latency_ms() const {
		return latency.count() > 0 ? latency_sum_ms / static_cast<double>(latency.count()) : 0;
	}
	double success_percent() const { return clients > 0 ? 100.0 * static_cast<double>(good) / clients : 0; }
	// Resident memory of the server's process for each client: while all are connected, and at its
	// peak.
	std::optional<double> server_kib_per_connection() const;
	std::optional<double> server_peak_kib_per_connection() const;
	// The CPU time of the server while all its clients are idle, in percent of a core.
	std::optional<double> idle_cpu_percent() const;
	// Posts of the server for one echo: sends, and lists of receives.
	std::optional<double> doorbells_per_echo() const;
	// Jain's fairness index of the clients' echoes: 1 if all have the same number, 1/clients if one
	// client has all of them.
	double fairness() const;
};

}  // namespace verbena::scale

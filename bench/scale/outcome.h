// What a run showed: what the clients and our own server's process counted, and the figures that follow from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/scale/echo_service.h"
#include "bench/scale/process_use.h"
#include "bench/scale/swarm.h"

namespace verbena::scale {

// The server and the clients' processes at one instant.
struct Sample {
	Nanoseconds at = 0;
	std::uint64_t echoed = 0;  // as the server counted
	ProcessUse server, clients;
};

// What our own server's process told.
struct ServerAccount {
	channel::Path path;
	ProcessUse before, connected, after;  // before the first client, with all of them, at the end
	std::uint64_t kernel_before = 0, kernel_connected = 0;  // bytes of the kernel for sockets, of this host
	std::uint64_t threads_peak = 0;
	std::uint64_t peak = 0, echoed = 0, lost = 0, refused = 0;  // peak: clients at once
	std::string engine_trouble;         // why its engine is not the one that was asked for
	std::uint64_t queue_pairs_max = 0;  // of the device
	std::uint64_t queue_pairs = 0, labels = 0;  // at most; different ones of logical clients
	channel::RcCounters counters;
};

struct Outcome {
	Transport transport = Transport::rdma;
	ConnectBy connect_by = ConnectBy::tls_psn;
	Engine engine = Engine::epoll;  // that ran
	std::uint32_t stalled = 0;
	Without without = Without::nothing;
	bool in_clear = false;
	std::uint32_t clients = 0, queue_pairs = 0, window = 1, messages = 0,
				  message_bytes = 0;  // queue_pairs: shared, or 0
	std::uint32_t handshakes = 0;  // set-ups at once of one process of clients; 0: all
	double think_ms = 0, stagger_ms = 0, rate = 0, warmup_s = 0, seconds = 0;

	channel::Path path;  // what the clients run on

	std::vector<ClientRow> rows;
	Histogram connect, latency;  // ns
	double connect_sum_ms = 0, latency_sum_ms = 0;
	std::uint64_t connected = 0, good = 0, echoes = 0, failures[causes] = {};
	std::vector<std::string> first_failures;  // one of each process that had one

	double connecting_s = 0;   // from the first SYN to the last that was ready
	double messages_s = 0;     // from the first message to the last echo
	Sample from, to;  // the measured time: all of the messages, or what a duration leaves between warm-up and end
	Sample idle_from, idle_to;  // while all are connected and nobody sends, after the last echo (with a hold)
	std::optional<ServerAccount> server;
	std::optional<double> round_trip_ns;  // core to core, if the caller took it

	bool timed() const { return seconds > 0; }
	double window_s() const { return static_cast<double>(to.at - from.at) / 1e9; }
	// Echoes a second: of a duration by the server's count between two instants, else of all messages.
	double messages_per_s() const;
	double connections_per_s() const { return connecting_s > 0 ? static_cast<double>(connected) / connecting_s : 0; }
	double mean_connect_ms() const { return connected > 0 ? connect_sum_ms / static_cast<double>(connected) : 0; }
	double mean_latency_ms() const {
		return latency.count() > 0 ? latency_sum_ms / static_cast<double>(latency.count()) : 0;
	}
	double success_percent() const { return clients > 0 ? 100.0 * static_cast<double>(good) / clients : 0; }
	// Resident memory of the server's process for each of its clients: while all are connected, and at its greatest.
	std::optional<double> server_kib_per_connection() const;
	std::optional<double> server_peak_kib_per_connection() const;
	// The server's, in percent of a core, while all its clients are idle.
	std::optional<double> idle_cpu_percent() const;
	// What the server posts for one echo: sends, and lists of receives.
	std::optional<double> doorbells_per_echo() const;
	// Jain's index of what the clients got done: 1 if all did alike, 1/clients if one did everything.
	double fairness() const;
};

}  // namespace verbena::scale

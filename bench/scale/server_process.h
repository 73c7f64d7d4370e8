// SPDX-License-Identifier: Apache-2.0
// The process of our own echo server in a run, and the options of the run.
//
// Threads: one thread calls serve(), in a process of its own; the server makes further ones.
#pragma once

#include <cstring>
#include <functional>
#include <string>

#include "bench/scale/echo_service.h"
#include "bench/scale/process_use.h"
#include "bench/scale/swarm.h"

namespace verbena::scale {

struct RunOptions {
	SwarmOptions swarm;      // with our own server, hosts and port are set by run_cell()
	bool own_server = true;  // start a server for this run
	channel::Protection server_protection;
	Engine engine = Engine::epoll;  // our own server's
	std::uint32_t stalled = 0;  // connections that begin a handshake before the clients and stall
	std::uint32_t processes = 0;  // client processes; 0: as many as needed
	Nanoseconds server_spin = 50'000;
	std::string metrics;  // [HOST:]PORT to serve the clients' metrics at while they run; or empty
	std::function<void(std::uint16_t)> metrics_opened;  // called with the port
};

// The report of the server's process, written to a pipe as raw bytes: once when it listens (port to
// `before`), and once at its end (everything).
struct ServerReport {
	std::uint16_t port = 0;
	char error[256] = {}, device[64] = {}, gid[64] = {};
	Engine engine = Engine::epoll;
	char engine_fallback_reason[256] = {};
	std::uint32_t mtu = 0;
	std::uint64_t queue_pairs_max = 0;
	ProcessUse before, after;
	std::uint64_t peak = 0, echoed = 0, lost = 0, refused = 0;
	channel::RcCounters counters;
};

// Copies a text into an array of a report; a long text is cut.
template <std::size_t size> void put(char (&into)[size], const std::string& text) {
	std::strncpy(into, text.c_str(), size - 1);
}

// Serves until SIGTERM, which this process also gets when its parent dies. Writes the reports to
// the descriptor `out`.
void serve(const RunOptions& options, EchoCounts& counts, int out);

}  // namespace verbena::scale

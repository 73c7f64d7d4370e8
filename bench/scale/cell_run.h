// One run of many clients: starts an echo server in a process of its own (or uses one elsewhere)
// and the clients in other processes, watches them, and combines what both counted.
// `performance_test` prints one run; `verbena bench scale` makes rows of several.
//
// Threads: one thread; with `metrics`, one more that answers scrapes.
// Invariants: the caller must make no verbs call before a run or between runs. The processes are
//   forked, and a forked process cannot use its parent's devices.
// Errors: one sentence for the user. Clients that fail are counted in the Outcome.
#pragma once

#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/scale/outcome.h"

namespace verbena::scale {

struct ExperimentOptions {
	SwarmOptions swarm;      // with our own server, hosts and port are set by run_experiment()
	bool own_server = true;  // start a server for this run
	channel::Protection server_protection;
	Engine engine = Engine::epoll;  // our own server's
	std::uint32_t stalled = 0;  // connections that begin a handshake before the clients and stall
	std::uint32_t processes = 0;  // client processes; 0: as many as needed
	Nanoseconds server_spin = 50'000;
	std::string metrics;  // [HOST:]PORT to serve the clients' metrics at while they run; or empty
	std::function<void(std::uint16_t)> metrics_opened;  // called with the port
};

// The state of a run, reported about ten times a second.
struct Moment {
	const char* doing = "";  // connecting, connected (reported once), warming up, measuring, ending
	std::uint32_t connected = 0, clients = 0;
	Nanoseconds since = 0;  // time since the start of the run
};

// The number of open files that a process may have (hard limit).
std::uint64_t descriptors_max();
// The number of client processes that the swarm needs; `wanted` of 0 lets this function choose.
// Each TCP client needs a descriptor on both sides, and each process of logical clients at least
// one of the shared queue pairs. The error names the shortage that makes the run impossible.
std::expected<std::uint32_t, std::string> plan_processes(
	const SwarmOptions& swarm, std::uint32_t wanted, bool own_server, std::uint64_t descriptors_max);

// Runs once, and returns when all its processes have ended. `tell` gets the progress.
std::expected<Outcome, std::string> run_experiment(
	const ExperimentOptions& options, const std::function<void(const Moment&)>& tell);

}  // namespace verbena::scale

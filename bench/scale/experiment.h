// One run: an echo server in a process of its own (or one that runs elsewhere), clients in as many processes as they
// take, and what both counted, put together. `performance_test` prints one; `verbena bench scale` makes rows of many.
//
// The caller makes no verbs call before or between: the processes are forked, and a forked process cannot use its
// parent's devices.
#pragma once

#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/scale/outcome.h"

namespace verbena::scale {

struct ExperimentOptions {
	SwarmOptions swarm;       // host and port: of the server, unless it is our own
	bool own_server = true;
	channel::Protection server_protection;
	Engine engine = Engine::epoll;     // of our own server
	std::uint32_t stalled = 0;  // callers that begin a handshake and never go on, there before the first client
	std::uint32_t processes = 0;  // of clients; 0: as many as it takes
	Nanoseconds server_spin = 50'000;
	std::string metrics;  // [HOST:]PORT: what the clients count is served there while they run
	std::function<void(std::uint16_t)> metrics_opened;  // told the port
};

// Where the run is; told some ten times a second.
struct Moment {
	const char* doing = "";  // connecting, connected (once), warming up, measuring, ending
	std::uint32_t connected = 0, clients = 0;
	Nanoseconds since = 0;  // the start
};

// Open files that a process may have at most.
std::uint64_t descriptors_max();
// The processes that so many clients need, or which shortage forbids it: a descriptor is needed for each TCP client, on
// both sides. Each process has at least one of the queue pairs that logical clients share.
std::expected<std::uint32_t, std::string> plan_processes(
	const SwarmOptions& swarm, std::uint32_t wanted, bool own_server, std::uint64_t descriptors_max);

std::expected<Outcome, std::string> run_experiment(
	const ExperimentOptions& options, const std::function<void(const Moment&)>& tell);

}  // namespace verbena::scale

// Neighbour: a server of another project (redis, memcached), for a comparison in the same session.
//
// Threads: one.
// Owns: the server's process and a temporary folder, and removes both.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <expected>
#include <functional>
#include <string>
#include <vector>

#include "bench/kv/rows.h"

namespace verbena::kvbench {

class Neighbour {
public:
	enum class At : std::uint8_t { socket, port };

	// Makes the folder, whose name contains `name`, and chooses a free port of 127.0.0.1.
	explicit Neighbour(const std::string& name);
	~Neighbour();
	Neighbour(const Neighbour&) = delete;
	Neighbour& operator=(const Neighbour&) = delete;

	const std::string& folder() const { return folder_; }
	std::string socket() const { return folder_ + "/socket"; }
	std::uint16_t port() const { return port_; }

	// Starts the server and waits until it accepts connections. Returns false if it ended before,
	// or did not within 10 s.
	bool start(std::vector<std::string> command, At at);
	// Returns a connected descriptor, which the caller owns, or -1.
	int connect(At at) const;

private:
	std::string folder_;
	std::uint16_t port_ = 0;
	pid_t pid_ = 0;
};

// A workload: `requests` operations on values of `size` bytes, `window` of them under way at once.
// The key of a GET exists.
struct Load {
	Op op = Op::set;
	std::uint64_t size = 0, window = 1, requests = 0;
};
// Runs a load and returns operations per second; the error is one sentence.
using Measure = std::function<std::expected<double, std::string>(Neighbour::At, const Load&)>;

// The extent of a measurement, and its progress report.
struct Effort {
	std::uint32_t repetitions, iters;  // runs of each load; requests of a run, at most
	// Called before each measurement with a phrase that describes it. False ends the measurements.
	std::function<bool(std::string)> next;
};
// Returns the number of calls of `next` that add_rates() will make.
std::size_t measurements(const std::vector<Json>& rows);

// Adds the columns <name>_unix_per_second and <name>_tcp_per_second to every row: medians over
// `effort.repetitions` runs of the row's operation, size and window. The error is one sentence.
std::expected<void, std::string> add_rates(
	std::vector<Json>& rows, const std::string& name, const Effort& effort, const Measure& measure);

}  // namespace verbena::kvbench

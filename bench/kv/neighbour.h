// A server of another project beside ours, for a comparison in the same session: a process of its own, at a unix socket
// in a folder of its own or at a free port of 127.0.0.1, which ends with this.
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

	// Chooses the folder and the port; `name` is a part of the folder's.
	explicit Neighbour(const std::string& name);
	~Neighbour();
	Neighbour(const Neighbour&) = delete;
	Neighbour& operator=(const Neighbour&) = delete;

	const std::string& folder() const { return folder_; }
	std::string socket() const { return folder_ + "/socket"; }
	std::uint16_t port() const { return port_; }

	// Until it answers. False: it ended, or does not answer in time.
	bool start(std::vector<std::string> command, At at);
	// A connected descriptor, the caller's; -1: nobody answers.
	int connect(At at) const;

private:
	std::string folder_;
	std::uint16_t port_ = 0;
	pid_t pid_ = 0;
};

// What is measured: `requests` operations of values of `size` bytes, `window` of them under way at once. A GET finds
// its key.
struct Load {
	Op op = Op::set;
	std::uint64_t size = 0, window = 1, requests = 0;
};
// Operations a second, or one sentence.
using Measure = std::function<std::expected<double, std::string>(Neighbour::At, const Load&)>;

// How long that takes, and who is told.
struct Effort {
	std::uint32_t repetitions, iters;
	std::function<bool(std::string)> next;  // what is measured now; false: nothing any more
};
// How often it will be told.
std::size_t measurements(const std::vector<Json>& rows);

// Adds to every row <name>_unix_per_second and <name>_tcp_per_second: medians of so many repetitions of the same
// operation, size and window.
std::expected<void, std::string> add_rates(
	std::vector<Json>& rows, const std::string& name, const Effort& effort, const Measure& measure);

}  // namespace verbena::kvbench

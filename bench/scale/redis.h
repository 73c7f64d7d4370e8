// SPDX-License-Identifier: Apache-2.0
// Measures redis-server with redis-benchmark for comparison: the same number of TCP connections, on
// the same machine, between our own runs.
//
// Both programs must be installed already. The rate is the one that redis-benchmark prints: it is
// over its whole time, one process has all clients, and no answer is verified.
//
// Threads: one thread at a time.
// Errors: one sentence for the user.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::scale {

// The latencies that redis-benchmark prints; before version 6.2 it prints none.
struct RedisLatency {
	std::optional<double> mean_ms, p50_ms, p99_ms, max_ms;
};

struct RedisRun {
	std::uint64_t requests = 0, elapsed_ns = 0;  // elapsed: from its start to its end, by our clock
	double requests_per_s = 0;
	RedisLatency latency;
};

// Whether both programs are on the PATH; the error says which packages to install.
std::expected<void, std::string> find_redis();

// Whether its one process has descriptors for this number of connections; the error names the
// shortage.
std::expected<void, std::string> plan_redis(std::uint32_t connections, std::uint64_t descriptors_max);

// Measures `requests` ECHO requests of `bytes` bytes. Starts a server on a free port and ends it.
std::expected<RedisRun, std::string> measure_redis(
	std::uint32_t connections, std::uint32_t bytes, std::uint64_t requests);

// The rate in the output of `redis-benchmark --csv`: the second field of the last line whose fields
// are quoted.
std::expected<double, std::string> read_redis_csv(std::string_view text);
// The latencies in the same output, by the names in its first line.
RedisLatency read_redis_latency(std::string_view text);

}  // namespace verbena::scale

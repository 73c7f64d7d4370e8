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
#include <string>
#include <string_view>

namespace verbena::scale {

struct RedisRate {
	double requests_per_s = 0;
	std::uint32_t connections = 0;  // fewer than asked for if its process has too few descriptors
};

// Whether both programs are on the PATH; the error says which packages to install.
std::expected<void, std::string> find_redis();

// Measures `requests` ECHO requests of `bytes` bytes. Starts a server on a free port and ends it.
std::expected<RedisRate, std::string> measure_redis(
	std::uint32_t connections, std::uint32_t bytes, std::uint64_t requests, std::uint64_t descriptors_max);

// The rate in the output of `redis-benchmark --csv`: the second field of the last line whose fields
// are quoted.
std::expected<double, std::string> read_redis_csv(std::string_view text);

}  // namespace verbena::scale

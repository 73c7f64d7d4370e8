// redis-server and redis-benchmark as a yardstick: the same number of TCP connections, on the same machine, in the same
// session.
//
// Both are the machine's own programs; nothing is installed. What redis-benchmark prints is passed on as it is: its
// rate is over all of its time, it has one process for all its clients, and it verifies no answer.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace verbena::scale {

struct RedisRate {
	double requests_per_s = 0;
	std::uint32_t connections = 0;  // as many as asked for, or as its one process has descriptors for
};

// Where the two programs lie; or which packages to install.
std::expected<void, std::string> find_redis();

// ECHO of `bytes`, so many requests. Starts a server on a free port and ends it.
std::expected<RedisRate, std::string> measure_redis(
	std::uint32_t connections, std::uint32_t bytes, std::uint64_t requests, std::uint64_t descriptors_max);

// The rate in what `redis-benchmark --csv` prints: the second field of its last line of quoted fields.
std::expected<double, std::string> read_redis_csv(std::string_view text);

}  // namespace verbena::scale

// Measures redis-server by redis-benchmark for a comparison in the same session: SET and GET of the
// same sizes and windows, by one connection, over a Unix socket and over TCP. The rates are those
// that redis-benchmark prints; it verifies no value.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "bench/kv/neighbour.h"

namespace verbena::kvbench {

// Checks that the programs are installed. The error says what to install.
std::expected<void, std::string> find_redis();

// Adds the columns redis_unix_per_second and redis_tcp_per_second (medians) to every row. The error
// is one sentence.
std::expected<void, std::string> add_redis(std::vector<Json>& rows, const Effort& effort);

}  // namespace verbena::kvbench

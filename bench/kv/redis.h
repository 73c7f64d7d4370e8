// redis-server and redis-benchmark as a yardstick: SET and GET of the same sizes and windows, by one connection, over a
// unix socket and over TCP, on the same machine in the same session. What redis-benchmark prints is passed on as it is;
// it verifies no value.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "bench/kv/neighbour.h"

namespace verbena::kvbench {

// Where the programs lie; or what to install.
std::expected<void, std::string> find_redis();

// Adds to every row redis_unix_per_second and redis_tcp_per_second (medians).
std::expected<void, std::string> add_redis(std::vector<Json>& rows, const Effort& effort);

}  // namespace verbena::kvbench

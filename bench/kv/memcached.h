// Measures memcached for a comparison in the same session: SET and GET of the same sizes and
// windows, by one connection, over a Unix socket and over TCP. memcached has no benchmark program,
// so this is a client of its text protocol. Like redis-benchmark, it sends a window of requests
// together and waits for all answers. It verifies every answer.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "bench/kv/neighbour.h"

namespace verbena::kvbench {

// Checks that memcached is installed. The error says what to install.
std::expected<void, std::string> find_memcached();

// Adds the columns memcached_unix_per_second and memcached_tcp_per_second (medians) to every row.
// The error is one sentence.
std::expected<void, std::string> add_memcached(std::vector<Json>& rows, const Effort& effort);

}  // namespace verbena::kvbench

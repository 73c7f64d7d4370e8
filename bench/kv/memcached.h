// memcached as a yardstick: SET and GET of the same sizes and windows, by one connection over a unix socket and one
// over TCP, on the same machine in the same session. It brings no program that measures it, so this is a client of its
// text protocol: as redis-benchmark does, it sends a window's requests together and waits for all their answers. Each
// answer is compared with what it must be.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "bench/kv/neighbour.h"

namespace verbena::kvbench {

// Or what to install.
std::expected<void, std::string> find_memcached();

// Adds to every row memcached_unix_per_second and memcached_tcp_per_second (medians).
std::expected<void, std::string> add_memcached(std::vector<Json>& rows, const Effort& effort);

}  // namespace verbena::kvbench

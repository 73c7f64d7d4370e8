// SPDX-License-Identifier: Apache-2.0
// Starts redis-server and memcached as stores in memory, without durability and with one thread for
// requests.
//
// Threads: one.
// Errors: one sentence.
#pragma once

#include <memory>

#include "bench/rivals/server.h"

namespace verbena::bench {

// Whether the program is on the PATH; the error says what to install.
std::expected<void, std::string> find_redis();
std::expected<void, std::string> find_memcached();

using StartedRival = std::expected<std::unique_ptr<RivalServer>, std::string>;
// A redis-server that listens at its Unix socket and at its port.
StartedRival start_redis();
// memcached listens at a Unix socket or at a port, not at both.
StartedRival start_memcached(RivalServer::At at);

}  // namespace verbena::bench

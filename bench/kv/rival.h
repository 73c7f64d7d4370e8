// SPDX-License-Identifier: Apache-2.0
// Measures redis or memcached as the workers measure our own store: SET and GET of random values,
// by one connection. The client sends a window of requests together and waits for all answers. It
// compares every byte of every answer.
//
// Threads: one.
#pragma once

#include <cstdint>

#include "bench/kv/cell.h"
#include "bench/rivals/server.h"

namespace verbena::kvbench {

// The bytes of a window of requests, which the client keeps in memory, at most.
inline constexpr std::uint64_t rival_window_bytes_max = std::uint64_t{256} << 20;

constexpr bench::RivalServer::At at_of(Transport transport) {
	return transport == Transport::unix_socket ? bench::RivalServer::At::unix_socket : bench::RivalServer::At::tcp;
}

// Runs a cell of another system on its server. A failure is in Repetition::failure. `number` is the
// random seed of the values, another number in each run.
Repetition run_rival(const bench::RivalServer& server, const Cell& cell, std::uint64_t number);

}  // namespace verbena::kvbench

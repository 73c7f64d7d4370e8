// SPDX-License-Identifier: Apache-2.0
// One cell of the experiment: what its clients and their server do. A cell is the same for all
// repetitions, names the row of a table, and stands in the evidence of each repetition too.
//
// Threads: values and pure functions.
#pragma once

#include <cstdint>

#include "bench/scale/echo_service.h"
#include "bench/scale/swarm.h"
#include "bench/table/row.h"

namespace verbena::scale {

struct Cell {
	Transport transport = Transport::rdma;
	ConnectBy connect_by = ConnectBy::tls_psn;
	bool in_clear = false;
	Engine engine = Engine::epoll;
	Without without = Without::nothing;
	bool own_server = true;  // false: a server that was running already, which reports no counts
	std::uint32_t clients = 0, queue_pairs = 0;  // queue_pairs: shared by logical clients, or 0
	std::uint32_t window = 1, message_bytes = 0, messages = 0;
	std::uint32_t stalled = 0, handshakes = 0;
	double rate = 0;  // messages a second of all clients; 0: as fast as echoes come
	double think_ms = 0, stagger_ms = 0, warmup_s = 0, seconds = 0;

	bool logical() const { return queue_pairs > 0; }
	bool timed() const { return seconds > 0; }
};

// The cell of these clients. `engine` and `stalled` belong to the server.
Cell cell_of(const SwarmOptions& swarm, Engine engine, std::uint32_t stalled, bool own_server);

// The columns of Role::cell and Role::setting.
bench::Json columns_of(const Cell& cell);
// Those of redis-benchmark with this number of connections. The columns that mean nothing for it
// are null.
bench::Json redis_columns(std::uint32_t clients, std::uint32_t message_bytes);

}  // namespace verbena::scale

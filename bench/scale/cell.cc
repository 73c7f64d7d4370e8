// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/cell.h"

namespace verbena::scale {
namespace {

// The word of the column `connect`.
std::string_view connect_of(const Cell& cell) {
	if (!cell.in_clear) return name_of(cell.connect_by);
	return cell.connect_by == ConnectBy::rdmacm ? "rdmacm-clear" : "clear";
}

}  // namespace

Cell cell_of(const SwarmOptions& swarm, Engine engine, std::uint32_t stalled, bool own_server) {
	return {.transport = swarm.transport,
		.connect_by = swarm.connect_by,
		.in_clear = std::holds_alternative<channel::ClearText>(swarm.protection),
		.engine = engine,
		.without = swarm.without,
		.own_server = own_server,
		.clients = swarm.clients,
		.queue_pairs = swarm.queue_pairs,
		.window = swarm.window,
		.message_bytes = swarm.message_bytes,
		.messages = swarm.messages,
		.stalled = stalled,
		.handshakes = swarm.handshakes,
		.rate = swarm.rate,
		.think_ms = static_cast<double>(swarm.think) / 1e6,
		.stagger_ms = static_cast<double>(swarm.stagger) / 1e6,
		.warmup_s = static_cast<double>(swarm.warmup) / 1e9,
		.seconds = static_cast<double>(swarm.duration) / 1e9};
}

bench::Json columns_of(const Cell& cell) {
	return {{"clients", cell.clients}, {"system", "verbena"}, {"transport", name_of(cell.transport)},
		{"connect", connect_of(cell)}, {"engine", name_of(cell.engine)}, {"rate", cell.rate},
		{"size", cell.message_bytes}, {"window", cell.window}, {"shared_qps", cell.queue_pairs},
		{"without", name_of(cell.without)}, {"stalled", cell.stalled},
		{"server", cell.own_server ? "own" : "elsewhere"}, {"messages", cell.messages}, {"think_ms", cell.think_ms},
		{"stagger_ms", cell.stagger_ms}, {"handshakes", cell.handshakes}, {"warmup_s", cell.warmup_s},
		{"seconds", cell.seconds}};
}

bench::Json redis_columns(std::uint32_t clients, std::uint32_t message_bytes) {
	bench::Json columns{{"clients", clients}, {"system", "redis"}, {"transport", "tcp"}, {"connect", "clear"}};
	const bench::Json ours = columns_of(Cell{});
	for (const auto& [name, value] : ours.items())
		if (!columns.contains(name)) columns[name] = nullptr;
	columns.update({{"rate", 0.0}, {"size", message_bytes}, {"window", 1}, {"server", "own"}});
	return columns;
}

}  // namespace verbena::scale

// The numbers of a store's channels, from what a user says of them.
#pragma once

#include <algorithm>

#include "lib/channel/options.h"
#include "lib/channel/tcp_channel.h"
#include "lib/kv/wire.h"

namespace verbena::kv {

inline constexpr std::uint16_t port_default = 7472;

struct Settings {
	std::uint32_t rx_depth = 512;   // receive buffers posted, and the most that one connection may fill at once
	std::uint32_t tx_depth = 128;   // send work requests of one connection
	std::uint32_t eager_max = eager_max_default;
	std::uint32_t connections_max = 1024;
	std::size_t memory = std::size_t{1} << 30;  // registered, for values
	std::size_t one_sided = 0;      // of a server, above `memory`: what it publishes for one-sided GETs; 0: nothing
};

// Of one eager request or answer, whole.
constexpr std::uint32_t message_max = value_max + key_max + RequestHeader::bytes;

// A receive buffer takes what is eager by the rule in one frame, and several small records together.
constexpr std::uint32_t unit_bytes(std::uint32_t eager_max) {
	return std::clamp((eager_max + 191) / 64 * 64, 4096u + 192, 64u << 10);
}
// Of several records: one frame's.
constexpr std::uint32_t records_max(std::uint32_t eager_max) { return unit_bytes(eager_max) - 12; }

// The store has its own rendezvous: a message is never fetched by the channel.
inline channel::RcOptions rc_options(const Settings& settings) {
	const std::uint32_t rx = std::clamp(settings.rx_depth, 8u, 1u << 16),
						tx = std::clamp(settings.tx_depth, 8u, 1u << 14);
	return {.unit_bytes = unit_bytes(settings.eager_max),
		.window = {.first = std::min(rx / 4, 16u), .max = rx},
		.units_start = rx,
		.units_max = std::max(1u << 14, 2 * rx + tx),
		.units_low = std::min(rx / 4, 256u),
		.connections_max = settings.connections_max,
		.send_depth = tx,
		.send_units_max = tx / 2,
		.direct_depth = 64,
		.eager_max = message_max,
		.message_max = message_max,
		.memory = {.max = settings.memory +
				(settings.one_sided == 0 ? 0 : channel::MemoryPool::block_size(settings.one_sided))}};
}

// What is eager is copied out of the message at once: so a client's registered memory, which its caller may hold all
// of, has no part in it. A server's has: it holds clients back.
inline channel::RcOptions client_rc_options(const Settings& settings) {
	channel::RcOptions options = rc_options(settings);
	options.fragments_on_heap = true;
	return options;
}

inline channel::TcpOptions tcp_options() { return {.message_max = message_max}; }

}  // namespace verbena::kv

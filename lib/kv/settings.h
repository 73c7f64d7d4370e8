// Settings: the user's sizes and depths, and the channel options that follow from them.
//
// Threads: any; values and pure functions.
#pragma once

#include <algorithm>

#include "lib/channel/options.h"
#include "lib/channel/tcp_channel.h"
#include "lib/kv/wire.h"

namespace verbena::kv {

inline constexpr std::uint16_t port_default = 7472;

struct Settings {
	std::uint32_t rx_depth = 512;   // receive buffers; one connection may fill all of them
	std::uint32_t tx_depth = 128;   // send work requests of one connection
	std::uint32_t eager_max = eager_max_default;
	std::uint32_t connections_max = 1024;
	std::size_t memory = std::size_t{1} << 30;  // bytes of registered memory for values
	// A server's area for one-sided GETs, in bytes, in addition to `memory`; 0: none.
	std::size_t one_sided = 0;
};

// The longest eager request or answer, in bytes.
constexpr std::uint32_t message_max = value_max + key_max + RequestHeader::bytes + sizeof(ChangeId);

// The size of a receive buffer: any message that is eager by the rule fits into one frame, and
// several small records fit into one buffer.
constexpr std::uint32_t unit_bytes(std::uint32_t eager_max) {
	return std::clamp((eager_max + 191) / 64 * 64, 4096u + 192, 64u << 10);
}
// The longest message of several records: the payload of one frame.
constexpr std::uint32_t records_max(std::uint32_t eager_max) { return unit_bytes(eager_max) - 12; }

// A server's channel options. The store has a rendezvous of its own, so every message is eager to
// the channel.
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

// A client's channel options. Long messages are assembled on the heap, because the caller may hold
// all of the client's registered memory by fetched values. At a server they are assembled in
// registered memory, whose limit then slows the clients down (backpressure).
inline channel::RcOptions client_rc_options(const Settings& settings) {
	channel::RcOptions options = rc_options(settings);
	options.fragments_on_heap = true;
	return options;
}

inline channel::TcpOptions tcp_options() { return {.message_max = message_max}; }

}  // namespace verbena::kv

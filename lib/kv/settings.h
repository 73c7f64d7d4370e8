// SPDX-License-Identifier: Apache-2.0
// Settings: the user's sizes and depths, and the channel options that follow from them.
//
// Threads: any; values and pure functions.
#pragma once

#include <algorithm>

#include "lib/channel/options.h"
#include "lib/channel/tcp_channel.h"
#include "lib/kv/state/arena.h"
#include "lib/kv/wire.h"

namespace verbena::kv {

inline constexpr std::uint16_t port_default = 7472;

struct Settings {
	std::uint32_t rx_depth = 512;   // receive buffers; one connection may fill all of them
	std::uint32_t tx_depth = 128;   // send work requests of one connection
	std::uint32_t eager_max = eager_max_default;
	std::uint32_t connections_max = 1024;
	// Bytes. A server's budget (Budget); a client's registered memory for values that it has got.
	std::size_t memory = std::size_t{1} << 30;
	// A server's area for one-sided GETs, in bytes, in addition to `memory`; 0: none.
	std::size_t one_sided = 0;
};

// The longest eager request or answer, in bytes.
constexpr std::uint32_t message_max =
	value_max + key_max + RequestHeader::bytes + sizeof(ChangeId) + sizeof(Request::expected) + sizeof(Request::ttl_ms);

// The size of a receive buffer: any message that is eager by the rule fits into one frame, and
// several small records fit into one buffer.
constexpr std::uint32_t unit_bytes(std::uint32_t eager_max) {
	return std::clamp((eager_max + 191) / 64 * 64, 4096u + 192, 64u << 10);
}
// The longest message of several records: the payload of one frame.
constexpr std::uint32_t records_max(std::uint32_t eager_max) { return unit_bytes(eager_max) - 12; }

// The memory of a server's process. `memory` limits what is stored: the versions of values, the
// table of keys and the clients' sessions. The memory in which messages travel has a limit of its
// own, which is free: only what it takes beyond that counts in `memory` as well.
struct Budget {
	// Bytes of receive buffers, unless the depths of the queues need more.
	static constexpr std::size_t units_bytes = 24 << 20;
	// Bytes of long messages that are being received, unless the longest one needs more.
	static constexpr std::size_t messages_bytes = 8 << 20;
	static constexpr std::size_t free_bytes = units_bytes + messages_bytes;
	static constexpr std::size_t memory_min = 1 << 20, memory_max = Arena::bytes_most / 2;

	// The bytes that count in `memory` when messages have this many bytes.
	static constexpr std::size_t beyond_free(std::size_t bytes) { return bytes - std::min(bytes, free_bytes); }
};

// The channel options that both sides have in common. The store has a rendezvous of its own, so
// every message is eager to the channel.
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
		.memory = {.max = settings.memory}};
}

// A server's channel options. Its registered memory is that for long messages, which the store
// copies, and for the keys that it publishes; the store registers its own. There is room for the
// longest message at least, and the limit slows the clients down (backpressure). With the first
// credits that a connection gets, all connections together leave an eighth of the receive buffers
// free.
inline channel::RcOptions server_rc_options(const Settings& settings, std::uint32_t longest_value) {
	channel::RcOptions options = rc_options(settings);
	options.units_max = std::max(static_cast<std::uint32_t>(Budget::units_bytes / options.unit_bytes),
		2 * options.window.max + options.send_depth);
	const std::uint32_t each = options.units_max / 8 * 7 / std::max(settings.connections_max, 1u);
	options.window.first = std::clamp(
		each - std::min(each, channel::control_kinds), std::min(options.window.first, 2u), options.window.first);
	options.eager_max = options.message_max =
		std::max(static_cast<std::uint32_t>(Budget::messages_bytes), longest_value + (message_max - value_max));
	options.memory.max = channel::MemoryPool::block_size(options.message_max) +
		(settings.one_sided == 0 ? 0 : channel::MemoryPool::block_size(settings.one_sided));
	return options;
}

// A client's channel options. Long messages are assembled on the heap, because the caller may hold
// all of the client's registered memory by fetched values.
inline channel::RcOptions client_rc_options(const Settings& settings) {
	channel::RcOptions options = rc_options(settings);
	options.fragments_on_heap = true;
	return options;
}

inline channel::TcpOptions tcp_options() { return {.message_max = message_max}; }

}  // namespace verbena::kv

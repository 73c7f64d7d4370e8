// SPDX-License-Identifier: Apache-2.0
// Every setting of RC channels, with its default. describe() lists them for --print-config.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/channel/credits.h"
#include "lib/channel/memory.h"

namespace verbena::channel {

// The treatment of a message for which there is no memory: no receive buffer for its frame, or no
// registered memory in which to assemble its parts.
enum class Watermark : std::uint8_t {
	wait,  // the message waits for memory; only its sender is slowed down
	close,  // only the message's connection ends, as in published systems
};

// The receive queue in which frames arrive. `srq`: all connections share one queue, so that memory
// follows the load. `per_connection`: each connection has a queue of `receive_depth` posted units,
// and each unit in which a frame arrives is replaced by a new one, as in published systems.
enum class RecvMode : std::uint8_t { srq, per_connection };

struct RcOptions {
	RecvMode recv_mode = RecvMode::srq;
	std::uint32_t receive_depth = 8;  // per_connection only: units posted, and credits granted
	// Bytes of a unit, which is a receive buffer, and so of the largest frame. The default holds
	// 1 KiB of messages with all headers.
	std::uint32_t unit_bytes = 1088;
	Window window;  // the credits that this end grants to the peer of one connection
	std::uint32_t units_start = 1024;  // receive buffers posted before the first connection
	std::uint32_t units_max = 1 << 18;  // the most units that the pool has
	std::uint32_t units_low = 256;  // srq: post more when fewer posted units are free to be granted
	std::uint32_t connections_max = 32'768;
	std::uint32_t send_depth = 8;  // send work requests of one connection, for frames
	// The most of the `send_depth` requests that send from a unit at once; the others are inline.
	std::uint32_t send_units_max = 4;
	// The most direct operations in flight on one connection, in addition to `send_depth`; 0: the
	// connection has no direct operations.
	std::uint32_t direct_depth = 16;
	// Bytes. The receiver fetches messages larger than this, where direct operations are possible.
	// The smaller value of the two ends applies.
	std::uint32_t eager_max = 16 << 10;
	// Bytes. A body in registered memory that is at least this large is also fetched, and is never
	// copied.
	std::uint32_t share_min = 4096;
	// A large message in memory that is not registered is copied and fetched in parts of about this
	// many bytes, so that copying one part overlaps with fetching others.
	std::uint32_t part_bytes = 64 << 10;
	// The most offers in flight on one connection, each a part of a message or a body; at most 64.
	std::uint32_t offers_max = 16;
	// True: this end assembles a message of several frames on the heap instead of in registered
	// memory, so that the message never waits for registered memory. Such an end fetches nothing:
	// its peers must send everything in frames (their eager_max and share_min are message_max).
	bool fragments_on_heap = false;
	Watermark watermark = Watermark::wait;
	std::uint32_t reads = 16;  // the most RDMA READs in flight on one connection, in each direction
	// Frames of at most this many bytes are sent inline, if the device supports it. The default is
	// below the limit of most devices, because a queue pair keeps this many bytes for each of its
	// send requests: with 512, the limit of our NIC, each connection would take 8 KiB more, or
	// 4 KiB more with many_connections().
	std::uint32_t inline_max = 256;
	bool coalesce = true;  // small messages that wait for a credit or for room share a frame
	std::uint32_t message_max = 64u << 20;  // bytes of the largest message, sent or received
	std::uint32_t poll_batch = 64;  // the most completions that one poll takes
	std::uint32_t close_timeout_ms = 1000;  // the time that the peer has to close its end
	MemoryOptions memory;  // for direct operations and large messages
};

// Returns `options` for thousands of connections that seldom have many direct operations in flight:
// each connection takes 10 KiB instead of 17 KiB on our NIC.
inline RcOptions many_connections(RcOptions options) {
	options.direct_depth = options.reads = 4;
	return options;
}

// Returns `options` with a receive queue for each connection, and enough units for
// `connections_max` connections.
inline RcOptions with_own_receives(RcOptions options) {
	options.recv_mode = RecvMode::per_connection;
	options.window.first = options.window.max = options.receive_depth;
	const std::uint32_t each = options.receive_depth + control_kinds + options.send_units_max;
	options.units_max = std::max(options.units_max, options.connections_max * each);
	return options;
}

// Names and values, as text.
using Described = std::vector<std::pair<std::string, std::string>>;

inline Described describe(const RcOptions& options) {
	const auto text = [](std::uint64_t number) { return std::to_string(number); };
	return {{"recv_mode", options.recv_mode == RecvMode::srq ? "srq" : "per_connection"},
		{"receive_depth", text(options.receive_depth)}, {"unit_bytes", text(options.unit_bytes)},
		{"window_first", text(options.window.first)}, {"window_max", text(options.window.max)},
		{"units_start", text(options.units_start)}, {"units_max", text(options.units_max)},
		{"units_low", text(options.units_low)}, {"connections_max", text(options.connections_max)},
		{"send_depth", text(options.send_depth)}, {"send_units_max", text(options.send_units_max)},
		{"direct_depth", text(options.direct_depth)}, {"reads", text(options.reads)},
		{"eager_max", text(options.eager_max)}, {"share_min", text(options.share_min)},
		{"part_bytes", text(options.part_bytes)}, {"offers_max", text(options.offers_max)},
		{"fragments_on_heap", options.fragments_on_heap ? "yes" : "no"},
		{"watermark", options.watermark == Watermark::wait ? "wait" : "close"},
		{"inline_max", text(options.inline_max)}, {"coalesce", options.coalesce ? "yes" : "no"},
		{"message_max", text(options.message_max)}, {"poll_batch", text(options.poll_batch)},
		{"close_timeout_ms", text(options.close_timeout_ms)}, {"memory_max", text(options.memory.max)},
		{"memory_region_bytes", text(options.memory.region_bytes)}};
}

}  // namespace verbena::channel

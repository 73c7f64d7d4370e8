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

// The treatment of a message for which there is no memory: no receive buffer, or no registered
// memory to put it together in.
enum class Watermark : std::uint8_t {
	wait,  // the message waits until there is some; its sender is slowed down, and no other
	close,  // its connection ends, and no other, as in published systems
};

// Where frames arrive: in one receive queue shared by all connections (SRQ), so that memory follows
// the load; or in a receive queue of each connection, with `receive_depth` units posted and a new
// one for each that has arrived, as in published systems.
enum class RecvMode : std::uint8_t { srq, per_connection };

struct RcOptions {
	RecvMode recv_mode = RecvMode::srq;
	std::uint32_t receive_depth = 8;  // per_connection only: units posted, and the window
	// Bytes of a unit: a receive buffer, and so the largest frame. 1 KiB and its headers.
	std::uint32_t unit_bytes = 1088;
	Window window;  // credits of one connection
	std::uint32_t units_start = 1024;  // receive buffers posted before the first connection
	std::uint32_t units_max = 1 << 18;  // the pool's watermark, in units
	std::uint32_t units_low = 256;  // post more units when fewer are free to be granted
	std::uint32_t connections_max = 32'768;
	std::uint32_t send_depth = 8;  // send work requests of one connection, for frames
	std::uint32_t send_units_max = 4;  // the most of these that send from a unit, and not inline
	// Direct operations of one connection in its send queue, besides send_depth; 0: none at all.
	std::uint32_t direct_depth = 16;
	// Larger messages, in bytes, are fetched by the receiver where direct operations are possible.
	// The smaller value of both ends counts.
	std::uint32_t eager_max = 16 << 10;
	// A body in registered memory of at least this many bytes is fetched too, and never copied.
	std::uint32_t share_min = 4096;
	// A large message in memory that is not registered is copied and fetched in parts of about this
	// many bytes, so that copying one part overlaps with fetching others.
	std::uint32_t part_bytes = 64 << 10;
	// Parts or messages of one connection that wait to be fetched; at most 64.
	std::uint32_t offers_max = 16;
	// Puts a message of several frames together on the heap instead of in registered memory, so
	// that it never waits for that. Such an end fetches nothing: its peers must send everything in
	// frames (their eager_max and share_min are message_max).
	bool fragments_on_heap = false;
	Watermark watermark = Watermark::wait;
	std::uint32_t reads = 16;  // RDMA READs of one connection in flight, each way
	// Frames of at most this many bytes are sent inline, where the device can. The default is less
	// than most devices can do, because a queue pair keeps that many bytes for each of its
	// requests: our NIC's 512 would cost 8 KiB more for each connection, 4 KiB with
	// many_connections().
	std::uint32_t inline_max = 256;
	bool coalesce = true;  // small messages for which there is no room share a frame
	std::uint32_t message_max = 64u << 20;  // bytes, sent or received
	std::uint32_t poll_batch = 64;  // completions taken by one poll
	std::uint32_t close_timeout_ms = 1000;  // the time that close() gives the peer
	MemoryOptions memory;  // for direct operations and large messages
};

// Options for thousands of connections that seldom move much at once: each takes 10 KiB instead of
// 17 on our NIC.
inline RcOptions many_connections(RcOptions options) {
	options.direct_depth = options.reads = 4;
	return options;
}

// Options with a receive queue for each connection, and units for `connections_max` of them.
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

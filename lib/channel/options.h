// Every number of a channel, with its default. `describe` lists them for --print-config.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/channel/credits.h"
#include "lib/channel/memory.h"

namespace verbena::channel {

// What becomes of a message for which there is no memory, registered or of receive buffers.
enum class Watermark : std::uint8_t {
	wait,   // until there is some: its sender is held back
	close,  // its connection ends, as in published systems, and no other
};

// Where frames arrive: in one shared receive queue, so that memory follows load; or, as in published systems, in a
// queue of each connection's own, with `receive_depth` units posted and a new one as soon as one has arrived.
enum class RecvMode : std::uint8_t { srq, per_connection };

// `window`: credits of one connection.
struct RcOptions {
	RecvMode recv_mode = RecvMode::srq;
	std::uint32_t receive_depth = 8;  // per_connection; also its window
	std::uint32_t unit_bytes = 1088;  // a receive buffer, a credit, the largest frame: 1 KiB and its headers
	Window window;
	std::uint32_t units_start = 1024;  // receive buffers posted before the first connection
	std::uint32_t units_max = 1 << 18;  // the pool's watermark, in units
	std::uint32_t units_low = 256;  // grow the pool when fewer are free to lend
	std::uint32_t connections_max = 32'768;
	std::uint32_t send_depth = 8;  // send work requests of one connection
	std::uint32_t send_units_max = 4;  // of these, how many that are not inline
	std::uint32_t direct_depth =
		16;  // direct operations of one connection in its send queue, above send_depth; 0: none are possible
	// Larger messages are fetched by the receiver, where direct operations are possible; the smaller eager_max of both
	// ends counts.
	std::uint32_t eager_max = 16 << 10;
	std::uint32_t lend_min =
		4096;  // a body in registered memory of at least so many bytes is fetched too, and never copied
	std::uint32_t part_bytes =
		64 << 10;  // about, of such a message in memory that is not registered: one is copied, others are fetched
	std::uint32_t offers_max = 16;  // parts or messages that wait to be fetched, of one connection; up to 64
	// A message in several frames is put together on the heap instead of in registered memory: it never waits for that.
	// Nothing is fetched then: for ends whose peers send everything in frames (their eager_max and lend_min are
	// message_max).
	bool fragments_on_heap = false;
	Watermark watermark = Watermark::wait;
	std::uint32_t reads = 16;  // RDMA READs of one connection under way, each way
	// Frames up to this go inline, where the device can. Not by default up to all that it can: a queue pair has so many
	// bytes for each request, so our NIC's 512 would cost 4 KiB more a connection with many_connections(), and 8 KiB
	// without.
	std::uint32_t inline_max = 256;
	bool coalesce = true;  // small messages that find no room share a frame
	std::uint32_t message_max = 64u << 20;
	std::uint32_t poll_batch = 64;  // completions taken at once
	std::uint32_t close_timeout_ms = 1000;  // how long close() waits for the peer
	MemoryOptions memory;  // for direct operations
};

// For thousands of connections that seldom move much at once: each keeps less, 10 KiB instead of 17 on our NIC.
inline RcOptions many_connections(RcOptions options) {
	options.direct_depth = options.reads = 4;
	return options;
}

// Each connection has its receive buffers for itself, and there are enough for as many connections as there may be.
inline RcOptions with_own_receives(RcOptions options) {
	options.recv_mode = RecvMode::per_connection;
	options.window.first = options.window.max = options.receive_depth;
	const std::uint32_t each = options.receive_depth + control_kinds + options.send_units_max;
	options.units_max = std::max(options.units_max, options.connections_max * each);
	return options;
}

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
		{"eager_max", text(options.eager_max)}, {"lend_min", text(options.lend_min)},
		{"part_bytes", text(options.part_bytes)}, {"offers_max", text(options.offers_max)},
		{"fragments_on_heap", options.fragments_on_heap ? "yes" : "no"},
		{"watermark", options.watermark == Watermark::wait ? "wait" : "close"},
		{"inline_max", text(options.inline_max)}, {"coalesce", options.coalesce ? "yes" : "no"},
		{"message_max", text(options.message_max)}, {"poll_batch", text(options.poll_batch)},
		{"close_timeout_ms", text(options.close_timeout_ms)}, {"memory_max", text(options.memory.max)},
		{"memory_region_bytes", text(options.memory.region_bytes)}};
}

}  // namespace verbena::channel

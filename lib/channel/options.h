// Every number of a channel, with its default. `describe` lists them for --print-config.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/channel/credits.h"

namespace verbena::channel {

// `window`: credits of one connection.
struct RcOptions {
	std::uint32_t unit_bytes = 1088;         // a receive buffer, a credit, the largest frame: 1 KiB and its headers
	Window window;
	std::uint32_t units_start = 1024;        // receive buffers posted before the first connection
	std::uint32_t units_max = 1 << 18;       // the pool's watermark, in units
	std::uint32_t units_low = 256;           // grow the pool when fewer are free to lend
	std::uint32_t connections_max = 32'768;
	std::uint32_t send_depth = 8;            // send work requests of one connection
	std::uint32_t send_units_max = 4;        // of these, how many that are not inline
	std::uint32_t inline_max = 256;          // frames up to this go inline, where the device can
	std::uint32_t message_max = 64u << 20;
	std::uint32_t poll_batch = 64;           // completions taken at once
	std::uint32_t close_timeout_ms = 1000;   // how long close() waits for the peer
};

using Described = std::vector<std::pair<std::string, std::string>>;

inline Described describe(const RcOptions& options) {
	const auto text = [](std::uint64_t number) { return std::to_string(number); };
	return {{"unit_bytes", text(options.unit_bytes)}, {"window_first", text(options.window.first)},
		{"window_max", text(options.window.max)}, {"units_start", text(options.units_start)}, {"units_max", text(options.units_max)},
		{"units_low", text(options.units_low)}, {"connections_max", text(options.connections_max)},
		{"send_depth", text(options.send_depth)}, {"send_units_max", text(options.send_units_max)},
		{"inline_max", text(options.inline_max)}, {"message_max", text(options.message_max)}, {"poll_batch", text(options.poll_batch)},
		{"close_timeout_ms", text(options.close_timeout_ms)}};
}

}  // namespace verbena::channel

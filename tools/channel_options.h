// The numbers of RDMA channels that a server's user may want to choose; without an option the program's own stay. --print-config shows all.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "base/sizes.h"
#include "lib/channel/options.h"

namespace verbena::tools {

struct ChannelOptions {
	std::string recv_mode = "srq", watermark = "wait";
	std::optional<std::uint32_t> receive_depth, unit_bytes, window, units_max, send_depth, inline_max, poll_batch;
	std::optional<std::uint32_t> eager_max, message_max;
	std::optional<std::uint64_t> memory_max;
	bool no_coalesce = false;

	void apply(channel::RcOptions& rc) const {
		const auto take = [](auto& into, const auto& wanted) {
			if (wanted) into = *wanted;
		};
		rc.recv_mode = recv_mode == "srq" ? channel::RecvMode::srq : channel::RecvMode::per_connection;
		rc.watermark = watermark == "wait" ? channel::Watermark::wait : channel::Watermark::close;
		take(rc.receive_depth, receive_depth);
		take(rc.unit_bytes, unit_bytes);
		take(rc.window.max, window);
		if (rc.recv_mode == channel::RecvMode::per_connection) rc.window.first = rc.window.max = rc.receive_depth;
		take(rc.units_max, units_max);
		rc.units_start = std::min(rc.units_start, rc.units_max);
		take(rc.send_depth, send_depth);
		rc.send_units_max = std::min(rc.send_units_max, rc.send_depth);
		take(rc.inline_max, inline_max);
		take(rc.poll_batch, poll_batch);
		take(rc.eager_max, eager_max);
		take(rc.message_max, message_max);
		take(rc.memory.max, memory_max);
		rc.coalesce = !no_coalesce;
		// Each connection has its buffers for itself then, and so many connections there shall be.
		if (rc.recv_mode == channel::RecvMode::per_connection && !units_max)
			rc.units_max = std::max(rc.units_max, rc.connections_max * (rc.receive_depth + channel::control_kinds + rc.send_units_max));
	}
};

inline void add_channel(CLI::App& app, ChannelOptions& options) {
	constexpr const char* group = "Channels (--print-config shows what they are without these)";
	const auto add = [&](const char* name, auto& value, const char* text) { return app.add_option(name, value, text)->group(group); };
	const CLI::Validator size(
		[](std::string& text) {
			const auto bytes = parse_size(text);
			if (bytes) text = std::to_string(*bytes);
			return bytes ? std::string() : bytes.error();
		},
		"SIZE");
	add("--recv-mode", options.recv_mode, "srq: one receive queue for all connections; per_connection: each has its own")
		->capture_default_str()
		->check(CLI::IsMember({"srq", "per_connection"}));
	add("--receive-depth", options.receive_depth, "Receives posted for each connection, and its credits; of per_connection")
		->check(CLI::Range(1u, 4096u));
	add("--unit-bytes", options.unit_bytes, "Of a receive buffer, and of the largest frame")
		->transform(size)
		->check(CLI::Range(64u, 1u << 20));
	add("--window", options.window, "Credits of one connection at most; of srq")->check(CLI::Range(1u, 65'535u));
	add("--units-max", options.units_max, "Receive buffers of all connections at most: the watermark")->check(CLI::Range(64u, 1u << 24));
	add("--watermark", options.watermark, "What a message does for which there is no memory: wait, or close its connection")
		->capture_default_str()
		->check(CLI::IsMember({"wait", "close"}));
	add("--send-depth", options.send_depth, "Sends of one connection under way at most")
		->check(CLI::Range(channel::control_kinds + 1, 4096u));
	add("--inline-max", options.inline_max, "Frames up to this are sent inline, where the device can; 0: none")
		->transform(size)
		->check(CLI::Range(0u, 1u << 16));
	add("--poll-batch", options.poll_batch, "Completions taken at once")->check(CLI::Range(1u, 128u));
	add("--eager-max", options.eager_max, "Larger messages are fetched by their receiver")
		->transform(size)
		->check(CLI::Range(0u, 16u << 20));
	add("--message-max", options.message_max, "Of one message; a larger one ends its connection")
		->transform(size)
		->check(CLI::Range(1u, 1u << 30));
	add("--memory-max", options.memory_max, "Registered memory for messages that are fetched, at most")->transform(size);
	app.add_flag("--no-coalesce", options.no_coalesce, "Small messages that find no room do not share a frame")->group(group);
}

}  // namespace verbena::tools

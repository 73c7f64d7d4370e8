// SPDX-License-Identifier: Apache-2.0
#include "tools/channel_options.h"

#include <algorithm>
#include <span>

#include "tools/option_values.h"

namespace verbena::tools {
namespace {

using channel::RcOptions, channel::MuxOptions, channel::AcceptorOptions;
using scale::EchoOptions;

enum class Form : std::uint8_t { number, size };  // size: units such as 64K are allowed

// One option: its name, its range, and how its value is stored.
struct Number {
	const char* name;  // as --print-config prints it
	Form form;
	std::uint64_t least, most;
	void (*set)(EchoOptions&, std::uint64_t);
	const char* text;  // for --help
	const char* other_name = "";  // a second name of the option
};

template <class T> void put(T& into, std::uint64_t value) { into = static_cast<T>(value); }
template <auto member> void rc(EchoOptions& echo, std::uint64_t value) { put(echo.rc.*member, value); }
template <auto member> void mux(EchoOptions& echo, std::uint64_t value) { put(echo.mux.*member, value); }
template <auto member> void acceptor(EchoOptions& echo, std::uint64_t value) { put(echo.acceptor.*member, value); }

constexpr std::uint64_t GiB = 1 << 30;
using enum Form;

// These numbers exist in each transport: RC, TCP and logical channels.
void message_max(EchoOptions& echo, std::uint64_t value) {
	put(echo.rc.message_max, value);
	put(echo.acceptor.tcp.message_max, value);
	put(echo.mux.message_max, value);
}
void close_timeout(EchoOptions& echo, std::uint64_t value) {
	put(echo.rc.close_timeout_ms, value);
	put(echo.acceptor.tcp.close_timeout_ms, value);
	put(echo.mux.close_timeout_ms, value);
}

// A message has at least 64 bytes, because the proof of the set-up is sent as one.
constexpr Number numbers[]{
	{"receive_depth", number, 1, 4096, rc<&RcOptions::receive_depth>,
		"With --recv-mode per_connection: receives posted for each connection, which are its credits"},
	{"unit_bytes", size, 64, 1 << 20, rc<&RcOptions::unit_bytes>,
		"Bytes of a receive buffer, and of the largest frame"},
	{"window_first", number, 1, 65'535,
		[](EchoOptions& echo, std::uint64_t value) { put(echo.rc.window.first, value); },
		"With --recv-mode srq: credits of a connection at its start"},
	{"window_max", number, 1, 65'535, [](EchoOptions& echo, std::uint64_t value) { put(echo.rc.window.max, value); },
		"With --recv-mode srq: credits of a connection at most, while its client wants more", "--window"},
	{"units_start", number, 0, 1 << 24, rc<&RcOptions::units_start>,
		"Receive buffers posted before the first connection"},
	{"units_max", number, 64, 1 << 24, rc<&RcOptions::units_max>,
		"Receive buffers of all connections at most (the watermark)"},
	{"units_low", number, 1, 1 << 20, rc<&RcOptions::units_low>,
		"Free receive buffers below which the server allocates more"},
	{"send_depth", number, channel::control_kinds + 1, 4096, rc<&RcOptions::send_depth>,
		"Sends of a connection under way at once"},
	{"send_units_max", number, 1, 4096, rc<&RcOptions::send_units_max>,
		"Sends of a connection under way at once that are not inline"},
	{"inline_max", size, 0, 1 << 16, rc<&RcOptions::inline_max>,
		"Bytes of the largest frame that is sent inline, if the device can; 0: none"},
	{"poll_batch", number, 1, 128, rc<&RcOptions::poll_batch>, "Completions taken in one poll"},
	{"eager_max", size, 0, 16 << 20, rc<&RcOptions::eager_max>,
		"Bytes of a message above which its receiver fetches it"},
	{"share_min", size, 0, GiB, rc<&RcOptions::share_min>,
		"Bytes of a message in registered memory from which on its receiver fetches it, without a copy"},
	{"part_bytes", size, 4096, GiB, rc<&RcOptions::part_bytes>,
		"Approximate bytes of a part of a fetched message in memory that is not registered"},
	{"offers_max", number, 1, 64, rc<&RcOptions::offers_max>, "Parts of a connection that wait to be fetched"},
	{"direct_depth", number, 0, 4096, rc<&RcOptions::direct_depth>,
		"READs, WRITEs and memory windows of a connection under way at once; 0: none"},
	{"reads", number, 0, 255, rc<&RcOptions::reads>, "RDMA READs of a connection under way at once, in each direction"},
	{"message_max", size, 64, GiB, message_max, "Bytes of the largest message; a larger one ends its connection"},
	{"close_timeout_ms", number, 1, 60'000, close_timeout, "Milliseconds that a closing channel waits for its peer"},
	{"memory_max", size, 0, 1024 * GiB, [](EchoOptions& echo, std::uint64_t value) { put(echo.rc.memory.max, value); },
		"Bytes of registered memory for fetched messages, at most"},
	{"memory_region_bytes", size, 64 << 10, GiB,
		[](EchoOptions& echo, std::uint64_t value) { put(echo.rc.memory.region_bytes, value); },
		"Bytes of a region of that memory, from which small pieces are allocated"},
	{"tcp_buffer_max", size, 4096, GiB,
		[](EchoOptions& echo, std::uint64_t value) { put(echo.acceptor.tcp.buffer_max, value); },
		"Bytes that a TCP connection buffers, in each direction"},
	{"tcp_dead_after_ms", number, 0, 3'600'000,
		[](EchoOptions& echo, std::uint64_t value) { put(echo.acceptor.tcp.dead_after_ms, value); },
		"Milliseconds without an answer after which the host of a TCP connection's peer is taken for dead; 0: never"},
	{"tcp_stall_timeout_ms", number, 0, 3'600'000,
		[](EchoOptions& echo, std::uint64_t value) { put(echo.acceptor.tcp.stall_timeout_ms, value); },
		"Milliseconds that the peer of a TCP connection may send nothing in the middle of a message; 0: no limit"},
	{"logical_message_max", size, 64, GiB, mux<&MuxOptions::message_max>,
		"Bytes of the largest message of a logical channel (default: --message-max)"},
	{"logical_window", size, channel::mux_window_min, GiB, mux<&MuxOptions::window>,
		"Bytes of a logical channel that may wait here to be received"},
	{"logical_frame_bytes", size, 256, channel::MuxFrame::length_max, mux<&MuxOptions::frame_bytes>,
		"Bytes of the largest frame of a logical channel, which is what it sends in its turn"},
	{"logical_batch_bytes", size, 1, 1 << 20, mux<&MuxOptions::batch_bytes>,
		"Bytes up to which frames of logical channels are sent together"},
	{"shared_queue_pairs_max", number, 1, 4096,
		[](EchoOptions& echo, std::uint64_t value) { put(echo.shared_queue_pairs_max, value); },
		"Connections that the logical channels of one client may share"},
	{"handshake_timeout_ms", number, 1, 3'600'000,
		[](EchoOptions& echo, std::uint64_t value) { put(echo.acceptor.patience, value * 1'000'000); },
		"Milliseconds for one handshake, from its start; a client may take three times as long to send its first "
		"message"},
	{"handshakes_max", number, 1, 100'000, acceptor<&AcceptorOptions::handshakes_max>,
		"Handshakes under way at once; further ones wait"},
	{"handshake_grace_ms", number, 1, 3'600'000,
		[](EchoOptions& echo, std::uint64_t value) { put(echo.acceptor.handshake_grace, value * 1'000'000); },
		"Milliseconds after which a handshake is evicted while others wait for its place"},
	{"accepted_max", number, 1, 1'000'000, acceptor<&AcceptorOptions::accepted_max>,
		"Clients in their set-up that have a descriptor; a further one evicts the oldest that has not begun"},
};

std::string option_of(const Number& number) {
	std::string option = std::string("--") + number.name;
	std::ranges::replace(option, '_', '-');
	return *number.other_name == '\0' ? option : option + "," + number.other_name;
}

}  // namespace

ChannelOptions::ChannelOptions() : values_(std::size(numbers)) {}

bool ChannelOptions::chosen(const char* name) const {
	const auto found = std::ranges::find(numbers, std::string_view(name), &Number::name);
	return values_[static_cast<std::size_t>(found - numbers)].has_value();
}

void ChannelOptions::add_to(CLI::App& app) {
	constexpr const char* group = "Channels (--print-config shows the default of each)";
	app.add_option("--recv-mode", recv_mode_,
		   "srq: a receive queue for all connections; per_connection: one for each connection")
		->capture_default_str()
		->check(CLI::IsMember({"srq", "per_connection"}))
		->group(group);
	app.add_option("--watermark", watermark_, "When a message finds no memory: let it wait, or close its connection")
		->capture_default_str()
		->check(CLI::IsMember({"wait", "close"}))
		->group(group);
	app.add_flag("--coalesce,!--no-coalesce", coalesce_, "Small messages that must wait to be sent share a frame")
		->group(group);
	app.add_flag("--fragments-on-heap", fragments_on_heap_,
		   "Put messages of several frames together on the heap; no message is fetched then")
		->group(group);
	for (std::size_t i = 0; i < values_.size(); ++i) {
		const Number& each = numbers[i];
		CLI::Option* const option = app.add_option(option_of(each), values_[i], each.text)->group(group);
		if (each.form == Form::size) option->transform(as_size(each.least, each.most));
		else option->check(CLI::Range(each.least, each.most));
	}
}

void ChannelOptions::apply(EchoOptions& echo) const {
	for (std::size_t i = 0; i < values_.size(); ++i)
		if (values_[i]) numbers[i].set(echo, *values_[i]);
	RcOptions& rc = echo.rc;
	rc.coalesce = coalesce_;
	rc.fragments_on_heap = fragments_on_heap_;
	rc.watermark = watermark_ == "wait" ? channel::Watermark::wait : channel::Watermark::close;
	if (recv_mode_ == "per_connection") {
		const std::uint32_t units_max = rc.units_max;
		rc = channel::with_own_receives(rc);
		if (chosen("units_max")) rc.units_max = units_max;
	}
	rc.window.first = std::min(rc.window.first, rc.window.max);
	rc.units_start = std::min(rc.units_start, rc.units_max);
	rc.send_units_max = std::min(rc.send_units_max, rc.send_depth);
	if (echo.logical == 0) return;
	// A connection that carries logical channels must accept their largest frame as one message.
	constexpr auto frame_max = static_cast<std::uint32_t>(channel::MuxFrame::bytes + channel::MuxFrame::length_max);
	rc.message_max = std::max(rc.message_max, frame_max);
	echo.acceptor.tcp.message_max = std::max(echo.acceptor.tcp.message_max, frame_max);
}

}  // namespace verbena::tools

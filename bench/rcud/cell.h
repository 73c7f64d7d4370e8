// SPDX-License-Identifier: Apache-2.0
// One cell of the sweep, the settings that it is run with, and the numbers that both ends derive
// from it.
//
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <expected>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "bench/far_end/failure.h"

namespace verbena::rcud {

using bench::Failure;
using bench::PeerLost;
using bench::take;

enum class Mode : std::uint8_t { rc, ud, ud_segmented };
enum class Op : std::uint8_t { send, write, read };

// The meaning of the window:
// - local: posted - own completions <= window, as most programs count. For UD a completion says
//   nothing about the receiver.
// - credit: posted - consumed by the receiver <= window, for both transports.
enum class WindowMode : std::uint8_t { local, credit };

struct Cell {
	Mode mode = Mode::rc;
	Op op = Op::send;
	WindowMode window_mode = WindowMode::local;
	std::uint32_t msg = 32;    // bytes
	std::uint32_t window = 4;  // messages
	// The queue pairs that send in turn (fan_in.h); 0: one that sends alone.
	std::uint32_t qps = 0;
	std::uint32_t senders = 1;  // the threads that share them
	friend bool operator==(const Cell&, const Cell&) = default;
};

// The way in which RC queue pairs are connected: their addresses go over the control connection, or
// rdma_cm connects them. UD has no connections; its addresses always go over the control
// connection.
enum class Connect : std::uint8_t { exchange, rdmacm };

struct Settings {
	std::uint64_t iters = 200'000;     // messages of a repetition, at least
	std::uint64_t warmup = 20'000;     // messages before each repetition, not counted
	double min_time_s = 0;             // a repetition has more messages if it would be shorter
	std::uint32_t post_list = 1;       // work requests of one ibv_post_send, at most
	std::uint32_t signal_every = 1;    // one completion for this many messages
	std::uint32_t inline_bytes = 64;      // asked of the device
	std::uint32_t receive_depth = 0;      // 0: chosen by shape_of
	std::uint32_t receiver_delay_ns = 0;  // for each message: simulates a slow receiver
	bool verify = false;                  // check every byte of every message, not only stamps
	bool passive_target = false;          // the target of READs sleeps instead of polling
	Connect connect = Connect::exchange;
};

// The limits of the two devices and the path between them: the smaller ones of both ends.
struct Limits {
	std::uint32_t mtu = 4096;
	std::uint32_t queue_depth_max = 16'384;
	std::uint32_t qps_max = 16'384;
};

inline constexpr std::uint32_t fragment_header_bytes = 16;

// Derived from cell, settings and limits by the sender, which sends it to the receiver, so that
// both ends use the same numbers.
struct Shape {
	std::uint32_t fragments = 1;       // datagrams a message
	std::uint32_t fragment_bytes = 0;  // payload of all but the last
	std::uint32_t stride = 64;         // bytes from one message buffer to the next
	std::uint32_t receive_depth = 0;
	std::uint32_t ring_slots = 0;      // WRITE and READ: message slots at the target
	std::uint32_t credit_every = 1;    // messages a credit
	std::uint32_t post_list = 1;
	std::uint32_t signal_every = 1;
};

// The shape of a cell. The error says why the cell cannot be run; its row is then n/a.
std::expected<Shape, std::string> shape_of(const Cell& cell, const Settings& settings, const Limits& limits);

// The rate in 2^30 bytes a second of 10^6 `mops` messages a second of `msg` bytes.
inline double gib_of(double mops, double msg) { return mops * 1e6 * msg / (1u << 30); }

std::string_view name_of(Mode mode);              // RC, UD, UD-seg
std::string_view name_of(Op op);                  // send, write, read
std::string_view name_of(WindowMode window_mode);  // local, credit

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Cell, mode, op, window_mode, msg, window, qps, senders)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
	Shape, fragments, fragment_bytes, stride, receive_depth, ring_slots, credit_every, post_list, signal_every)

}  // namespace verbena::rcud

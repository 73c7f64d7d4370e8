// SPDX-License-Identifier: Apache-2.0
// Many queue pairs that send in turn to one receiver (`--qps`, `--senders`): what its two ends
// derive from a cell, and the addresses that they exchange.
//
// RC has as many queue pairs at the receiver as at the senders, which share one receive queue (SRQ)
// and one completion queue; UD has one queue pair there. So the two differ in the queue pairs of
// the receiver alone. A sender is a thread with a completion queue of its own and an equal part of
// the queue pairs.
//
// The window bounds the messages of all queue pairs together. Message s goes through queue pair
// s mod qps, so the receiver knows from the stamp which queue pair it must have come from, and
// checks that. Queue pair i belongs to sender i mod senders.
//
// Threads: values and pure functions.
#pragma once

#include <expected>
#include <string>

#include "bench/rcud/cell.h"

namespace verbena::rcud {

// Bytes of the message buffers of all queue pairs together, and of each buffer that a client may
// make the server allocate.
inline constexpr std::uint64_t memory_max = std::uint64_t{4} << 30;

// The shape of a cell with `qps`; as shape_of().
std::expected<Shape, std::string> fan_in_shape_of(const Cell& cell, const Settings& settings, const Limits& limits);

// Whether an untrusted client's cell has numbers that a receiver can serve.
bool is_fan_in_in_range(const Cell& cell, const Shape& shape);

// Messages of one sender in flight.
inline std::uint32_t window_of_sender(const Cell& cell) { return cell.window / cell.senders; }
// Messages of one queue pair in flight, at most.
inline std::uint32_t window_of_queue_pair(const Cell& cell) { return (cell.window + cell.qps - 1) / cell.qps; }
// The messages of a run that one sender sends.
inline std::uint64_t share_of(std::uint64_t total, std::uint32_t senders, std::uint32_t sender) {
	return (total + senders - 1 - sender) / senders;
}

// One end of all queue pairs. Their numbers, `qpns`, follow in messages of their own; a receiver of
// UD has one. All of them begin at the same PSN.
struct FanInAddress {
	std::uint32_t psn = 0;
	std::uint32_t qkey = 0;
	std::uint32_t lid = 0;
	std::uint32_t mtu = 0;
	std::string gid;
	// RC: where the credits of sender 0 are written to; those of the next one are a line further.
	std::uint64_t credit_words = 0;
	std::uint32_t credit_rkey = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FanInAddress, psn, qkey, lid, mtu, gid, credit_words, credit_rkey)

}  // namespace verbena::rcud

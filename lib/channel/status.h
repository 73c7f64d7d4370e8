// SPDX-License-Identifier: Apache-2.0
// The status that a transport gives when it is asked: for each of its channels, the credits and
// what its messages wait for.
//
// As text, one line for each thing, so that a tool of another version can read it:
//
//     verbena channels 1
//     transport PID UID CHANNELS CREDITS_FREE DEVICE PROGRAM
//     channel QPN PEER_QPN WAITS WAITS_MS CREDITS GRANTED SENDS BYTES OFFERS OFFERED_BYTES HELD
//        PEER (all on one line)
//
// Threads: values and pure functions.
// Errors: parse() returns nothing if the text is no status; lines that it does not know are left
//   out. A text is not trusted.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/door.h"

namespace verbena::channel {

struct ChannelStatus {
	std::uint32_t qpn = 0, peer_qpn = 0;
	// The oldest message that is not on its way waits for "credits" of the peer (which receives
	// nothing, or keeps what it has received), for "units" or "memory" of this process (registered
	// buffers), for "room" in the send queue; or all are on their way and the peer has to "fetch"
	// large ones; or "nothing". "memory" also: a message that arrives.
	std::string waits = "nothing";
	// Milliseconds since the peer has last given a credit, or fetched something; only with
	// "credits" and "fetch".
	std::uint64_t waits_ms = 0;
	std::uint32_t credits = 0;  // frames that it may send now
	std::uint32_t granted = 0;  // frames that its peer may send
	std::uint32_t sends = 0;  // messages that wait; those in the pending frame count as one
	std::uint64_t bytes = 0;  // the length of these messages
	std::uint32_t offers = 0;  // offers of large messages that the peer has not fetched yet
	std::uint64_t offered_bytes = 0;  // registered memory that these offers keep
	std::uint32_t held = 0;  // receive buffers whose messages the program has not released yet
	std::string peer;  // its name or address, as the set-up got it
	friend bool operator==(const ChannelStatus&, const ChannelStatus&) = default;
};

struct TransportStatus {
	// At most this many channels are described, those that wait before the others.
	static constexpr std::size_t described_max = 4096;

	std::uint32_t pid = 0, uid = 0;
	std::uint64_t channels_open = 0;  // all of them
	std::uint64_t credits_free = 0;  // posted receive buffers that no channel has a credit for
	std::string device, program;
	std::vector<ChannelStatus> channels;
	friend bool operator==(const TransportStatus&, const TransportStatus&) = default;
};

std::string render(const TransportStatus&);
std::optional<TransportStatus> parse_status(std::string_view text);

// The kind of door (base/door.h) at which a transport gives its status.
inline constexpr std::string_view status_door_kind = "channels";

struct SilentProcess {
	std::uint32_t pid = 0, uid = 0;
	friend bool operator==(const SilentProcess&, const SilentProcess&) = default;
};

// The answers at the doors of this kind.
struct TransportsSeen {
	std::vector<TransportStatus> transports;  // by pid
	// The processes of the transports that have not answered in time: their loops do not run. One
	// for each such transport, by pid.
	std::vector<SilentProcess> silent;
};
// `answers` are in the order of `doors`.
TransportsSeen transports_in(std::span<const door::Found> doors, std::span<const door::Answer> answers);

}  // namespace verbena::channel

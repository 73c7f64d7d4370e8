// SPDX-License-Identifier: Apache-2.0
// Counts of all that this process's adapter has sent and received on all its ports together, over
// shared memory and over UDP, since the engine started, but for its own messages about room
// (room.h).
//
// Threads: a value.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "nic/wire/traffic.h"

namespace verbena::engine {

struct PortCounts {
	wire::Traffic sent, received;
	std::uint64_t multicast_sent = 0, multicast_received = 0;  // packets of the above
	// Packets that were to be sent and were not: the kernel refused them, or their peer has ended.
	// Messages, not packets, where the peer was stalled.
	std::uint64_t discarded = 0;
	std::uint64_t receive_errors = 0;  // packets that are no valid RoCEv2, with the overruns
	std::uint64_t overruns = 0;  // UDP datagrams for which a socket had no room
	Nanoseconds waited = 0;  // while nothing could be sent, summed over the destinations
};

}  // namespace verbena::engine

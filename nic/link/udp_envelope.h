// SPDX-License-Identifier: Apache-2.0
// The facts about a datagram that a UDP socket gives and takes in control messages (cmsg(3)):
// addresses, traffic class, hop limit, and the length of merged packets.
//
// Threads: any; all functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/socket.h>

#include "nic/link/udp_socket.h"
#include "nic/wire/flow.h"
#include "nic/wire/slot_ring.h"

namespace verbena::link {

// Room for the control messages of a datagram, in bytes. It must be aligned as cmsghdr.
inline constexpr std::size_t control_bytes = 256;

// A datagram that was received.
struct Envelope {
	wire::Flow flow;
	bool addressed = false;  // the destination address is known
	std::size_t segment_bytes = 0;  // UDP_GRO merged packets of this length; 0: a single packet
	std::uint32_t overflowed = 0;  // SO_RXQ_OVFL: datagrams that the socket has lost so far
};
Envelope open_envelope(msghdr& message, const SocketAddress& sender);

wire::AddressPair address_pair(const wire::Flow& flow);

// Fills in the destination of a message to send, and as control messages its source address,
// traffic class and hop limit; if `segment_bytes` is not 0, also UDP_SEGMENT. The message refers to
// `to` and to control_bytes bytes of room. `interface_index` is for a link-local destination,
// otherwise 0.
void address_message(msghdr& message, SocketAddress& to, Family family, const wire::Flow& flow,
	std::uint32_t interface_index, std::size_t segment_bytes);

}  // namespace verbena::link

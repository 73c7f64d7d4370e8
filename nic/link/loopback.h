// SPDX-License-Identifier: Apache-2.0
// Test fixture: two UDP links of one process that talk over the loopback interface, each on a port
// of its own.
#pragma once

#include <algorithm>
#include <cstring>
#include <poll.h>
#include <vector>

#include "nic/link/udp_path.h"

namespace verbena::link {

inline wire::Gid loopback_gid(Family family) {
	if (family == Family::ipv4) return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
	return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
}

// A received packet, copied.
struct Arrival {
	wire::Slot slot;
	std::vector<std::byte> payload;
	wire::AddressPair addresses;
	std::size_t datagram_bytes;
	bool after_overflow;
};

struct Loopback {
	explicit Loopback(Family family, const UdpOptions& options = {.port = 0})
		: family(family),
		  sender(options),
		  receiver(options),
		  path(sender,
			  {.source = loopback_gid(family),
				  .destination = loopback_gid(family),
				  .destination_port = receiver.port(family)}) {
		slots.attach(path.direction());
	}

	// Publishes a slot as the adapter does. Returns false if the ring is full.
	bool write(const wire::Slot& header, std::span<const std::byte> payload) {
		const auto room = slots.reserve(
			static_cast<std::uint32_t>(payload.size()), wire::extension_bytes(wire::facts(header.opcode())));
		if (!room.slot) return false;
		*room.slot = header;
		room.slot->payload_line = room.payload_line;
		std::ranges::copy(payload, room.payload);
		slots.publish(room.slot, static_cast<std::uint32_t>(payload.size()));
		return true;
	}

	// Receives until there are `packets` packets, or none has arrived for two seconds.
	std::vector<Arrival> receive(std::size_t packets) {
		std::vector<Arrival> arrivals;
		while (arrivals.size() < packets) {
			pollfd wait{.fd = receiver.ready_fd(), .events = POLLIN};
			if (poll(&wait, 1, 2000) <= 0) break;
			receiver.receive(16, [&](const UdpPacket& packet) {
				arrivals.push_back({packet.slot, {packet.payload.begin(), packet.payload.end()}, packet.addresses,
					packet.datagram.size(), packet.after_overflow});
			});
		}
		return arrivals;
	}

	Family family;
	UdpLink sender, receiver;
	UdpPath path;
	wire::SlotWriter slots;
};

}  // namespace verbena::link

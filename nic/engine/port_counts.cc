// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/port_counts.h"

#include "nic/engine/engine.h"

namespace verbena::engine {

PortCounts Engine::port_counts() const {
	const transport::Counters& counters = adapter_.context().counters;
	PortCounts counts{.discarded = counters.datagrams_dropped_ring_full,
		.receive_errors = counters.dropped_malformed,
		.waited = counters.waited_for_room};
	neighbours_.count(counts);
	remotes_.count(counts);
	return counts;
}

void Neighbours::count(const Link& link, PortCounts& counts) {
	if (link.is_dead_end()) {
		counts.discarded += link.sent().packets;
		return;
	}
	counts.sent += link.sent();
	counts.received += link.received();
}

void Neighbours::count(PortCounts& counts) const {
	counts.sent += past_.sent;
	counts.received += past_.received;
	counts.receive_errors += past_.receive_errors;
	for (const auto* list : {&links_, &retired_})
		for (const auto& link : *list) count(*link, counts);
}

void Remotes::count(PortCounts& counts) const {
	if (!udp_) return;
	const link::UdpCounters& udp = udp_->counters();
	counts.sent += {udp.packets_sent, udp.bytes_sent};
	counts.received += {udp.packets_received, udp.bytes_received};
	counts.received += counters_.taken;
	counts.received -= counters_.forwarded;
	// Those that the kernel refused, or that wait for room in the socket, were not counted as sent.
	counts.received -= counters_.room_received;
	counts.sent -= counters_.room_sent;
	counts.multicast_sent += udp.multicast_packets_sent;
	counts.multicast_received += udp.multicast_packets_received;
	counts.discarded += udp.too_big + udp.unreachable;
	counts.overruns += udp.overflowed;
	counts.receive_errors += udp.overflowed + udp.malformed;
	for (std::size_t reason = 0; reason < udp.drops.size(); ++reason)
		if (reason != static_cast<std::size_t>(wire::DropReason::congestion_notification))
			counts.receive_errors += udp.drops[reason];
}

}  // namespace verbena::engine

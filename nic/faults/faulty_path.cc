// SPDX-License-Identifier: Apache-2.0
#include "nic/faults/faulty_path.h"

#include <new>
#include <utility>

#include "base/check.h"
#include "nic/transport/in_flight.h"
#include "nic/wire/packet.h"
#include "nic/wire/room.h"

namespace verbena::faults {

namespace {

void break_queue_pair(adapter::ChannelAdapter& adapter, std::uint32_t qpn) {
	transport::QueuePair* const qp = adapter.queue_pairs().find({qpn});
	if (!qp || qp->state != transport::QpState::rts) return;
	transport::enter_error(adapter.context(), *qp, transport::ErrorCause::injected);
	adapter.context().raise(transport::AsyncEvent::qp_fatal, qp->cold->user);
}

}  // namespace

// Applies the fate of a packet, and puts what is left of it on the line.
void FaultyPath::depart(Line::Packet packet, const Network::Packet& facts, Nanoseconds now) {
	const Network::Departure departure = network_.leaves(adapter_, facts, now);
	const Fate& fate = departure.fate;
	if (fate.breaks_queue_pair) break_queue_pair(adapter_, facts.qpn);
	if (fate.lost) return;
	if (fate.corrupted) corrupt(packet.bytes, fate.bits);
	if (fate.duplicated && !line_.add(packet, now, fate.delay, departure.bits_per_second))
		network_.finds_line_full(adapter_, facts);
	if (!line_.add(std::move(packet), now, fate.delay, departure.bits_per_second))
		network_.finds_line_full(adapter_, facts);
}

void FaultyPath::depart(const wire::Slot& slot, Nanoseconds now) {
	const std::byte* const payload = reader().payload(slot, wire::extension_bytes(wire::facts(slot.opcode())));
	check(payload != nullptr, "the adapter writes payloads within the arena");
	const wire::Flow flow = flow_of(slot);
	// A message that the NIC sends of its own accord meets no fault, so that the same program
	// always meets the same ones.
	const bool unharmed =
		slot.destination() == wire::general_services_qpn && wire::read_room_message({payload, slot.length});
	for (std::uint32_t index = 0; index < wire::packet_count(slot); ++index) {
		const wire::Piece piece = wire::piece_of(slot, index);
		const Network::Packet facts{.qpn = slot.source().value,
			.peer_qpn = slot.destination().value,
			.peer = flow.destination,
			.opcode = piece.opcode,
			.psn = piece.psn,
			.bytes = piece.payload_bytes};
		try {
			Line::Packet packet{flow, std::vector<std::byte>(wire::packet_bytes_max)};
			packet.bytes.resize(wire::write_packet(slot, index, payload, flow, 0, packet.bytes));
			if (unharmed) line_.add(std::move(packet), now, 0, 0);
			else depart(std::move(packet), facts, now);
		} catch (const std::bad_alloc&) {
			network_.finds_line_full(adapter_, facts);
		}
	}
}

void FaultyPath::read_slots(Nanoseconds now) {
	for (wire::Slot slot; reader().read(slot); reader().advance()) depart(slot, now);
	reader().release();
}

bool FaultyPath::send_until(Nanoseconds now) {
	while (line_.due() <= now && !line_.empty()) {
		Line::Packet& packet = line_.front();
		if (send_packet(packet.flow, packet.bytes) == link::SendOutcome::blocked) return false;
		line_.pop();
	}
	return line_.empty();
}

bool FaultyPath::transmit() {
	const Nanoseconds now = adapter_.context().fresh_now();
	read_slots(now);
	return send_until(now);
}

void FaultyPath::finish() {
	read_slots(adapter_.context().fresh_now());
	send_until(never);
}

}  // namespace verbena::faults

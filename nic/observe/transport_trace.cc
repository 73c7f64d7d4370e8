// SPDX-License-Identifier: Apache-2.0
#include "nic/observe/transport_trace.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "nic/wire/packet.h"

namespace verbena::observe {

using queues::SendWqe;
using trace::Kind;
using trace::Record;
using transport::Outlet;
using transport::QueuePair;
using wire::Slot;

static_assert(static_cast<int>(transport::Waits::again) == static_cast<int>(trace::Wait::again));
static_assert(sizeof(trace::Packet::slot) == sizeof(Slot));

namespace {

std::uint8_t locality(bool local) { return local ? trace::flag_local : 0; }

// The fields that all packets have.
Record record_of(Kind kind, const Slot& slot, std::uint32_t length, bool local) {
	const wire::OpcodeFacts& facts = wire::facts(slot.opcode());
	Record r{.kind = kind,
		.code = static_cast<std::uint8_t>(slot.opcode()),
		.status = facts.aeth ? slot.syndrome() : std::uint8_t{0},
		.flags = locality(local),
		.psn = slot.psn().value,
		.length = length,
		.count = static_cast<std::uint16_t>(facts.known ? wire::packet_count(slot) : 1)};
	if (facts.reth) r.address = slot.reth.address, r.key = slot.reth.rkey.value;
	if (facts.atomic_eth) r.address = slot.atomic.address, r.key = slot.atomic.rkey.value;
	return r;
}

}  // namespace

wire::AddressPair TransportTrace::addresses_of(const QueuePair* qp, bool reverse) {
	wire::AddressPair pair{};
	if (qp == nullptr) return pair;
	std::ranges::copy(qp->cold->attributes.source_gid, reverse ? pair.destination : pair.source);
	std::ranges::copy(qp->cold->attributes.destination_gid, reverse ? pair.source : pair.destination);
	return pair;
}

void TransportTrace::write_packet(
	const Record& record, const Slot& slot, std::span<const std::byte> payload, const wire::AddressPair& pair) const {
	const std::uint32_t wanted = trace::packet_bytes();
	if (wanted == 0) return trace::write(record);
	trace::Packet packet{};
	std::memcpy(packet.source, pair.source, sizeof packet.source);
	std::memcpy(packet.destination, pair.destination, sizeof packet.destination);
	std::memcpy(packet.slot, &slot, sizeof packet.slot);
	payload = payload.first(std::min<std::size_t>({payload.size(), slot.length, wanted}));
	packet.captured = static_cast<std::uint32_t>(payload.size());
	trace::write(record, std::as_bytes(std::span(&packet, 1)), payload);
}

void TransportTrace::sent(
	const Outlet& outlet, const Slot& published, std::uint32_t length, std::uint32_t source) noexcept {
	Slot slot;
	// A peer that shares the memory may write to it, so each of its fields can have any value.
	std::memcpy(&slot, &published, sizeof slot);
	slot.length = length;
	const wire::OpcodeFacts& facts = wire::facts(slot.opcode());
	Record record = record_of(Kind::sent, slot, length, outlet.lossless);
	record.qpn = source;
	record.peer = slot.destination().value;
	const wire::Direction& direction = *outlet.slots.direction();
	std::span<const std::byte> payload;
	if (slot.payload_line == Slot::inline_payload)
		payload = std::span(slot.bytes).subspan(wire::extension_bytes(facts));
	else if (slot.payload_line < wire::Direction::arena_lines)
		payload = std::span(direction.arena).subspan(std::size_t{slot.payload_line} * 64);
	const bool datagram = facts.known && facts.deth;
	write_packet(record, slot, payload,
		datagram ? direction.addresses[slot.deth.address_index()]
				 : addresses_of(adapter_.queue_pairs().find({source}), false));
}

bool TransportTrace::arrived(
	const Outlet& from, const Slot& slot, const std::byte* payload, const wire::AddressPair& pair) noexcept {
	Record record = record_of(Kind::arrived, slot, slot.length, from.lossless);
	const QueuePair* const qp = adapter_.queue_pairs().find(slot.destination());
	const bool datagram = wire::facts(slot.opcode()).deth;
	record.qpn = slot.destination().value;
	record.peer = datagram    ? slot.deth.source_qp().value
		: slot.source().value ? slot.source().value
		: qp                  ? qp->destination_qpn
							  : 0;
	write_packet(record, slot, {payload, payload ? slot.length : 0}, datagram ? pair : addresses_of(qp, true));
	return true;
}

void TransportTrace::acknowledged(const QueuePair& qp, std::uint8_t syndrome, wire::Psn24 psn) noexcept {
	trace::write({.kind = Kind::acknowledged,
		.status = syndrome,
		.flags = trace::flag_local,
		.qpn = qp.qpn,
		.peer = qp.destination_qpn,
		.psn = psn.value});
}

void TransportTrace::acknowledgement_arrived(const Outlet&, const wire::AckRecord& ack) noexcept {
	const QueuePair* const qp = adapter_.queue_pairs().find(ack.destination());
	trace::write({.kind = Kind::acknowledgement,
		.status = ack.syndrome(),
		.flags = trace::flag_local,
		.qpn = ack.destination().value,
		.peer = qp ? qp->destination_qpn : 0,
		.psn = ack.psn().value});
}

void TransportTrace::finished(const QueuePair& qp, const SendWqe& wqe, queues::Status status, bool direct) noexcept {
	const bool signaled = qp.signal_all || wqe.has(queues::send_signaled) || status != queues::Status::success;
	const bool remote =
		wqe.reads() || wqe.opcode == queues::SendOpcode::rdma_write || wqe.opcode == queues::SendOpcode::rdma_write_imm;
	trace::write({.kind = Kind::finished,
		.code = static_cast<std::uint8_t>(wqe.opcode),
		.status = static_cast<std::uint8_t>(status),
		.flags = static_cast<std::uint8_t>((direct ? trace::flag_direct : 0) |
			(signaled ? trace::flag_signaled : trace::flag_unasked) | locality(qp.outlet && qp.outlet->lossless)),
		.qpn = qp.qpn,
		.peer = qp.type == transport::QpType::ud ? wqe.datagram.qpn : qp.destination_qpn,
		.psn = static_cast<std::uint32_t>(wqe.first_psn) & 0xffffff,
		.id = wqe.wr_id,
		.length = wqe.length,
		.count = static_cast<std::uint16_t>(std::min<std::uint32_t>(wqe.packets, 0xffff)),
		.address = remote ? wqe.rdma.address : 0,
		.key = remote ? wqe.rdma.rkey : 0});
}

void TransportTrace::received(const queues::Completion& completion) noexcept {
	trace::write({.kind = Kind::received,
		.code = static_cast<std::uint8_t>(completion.opcode),
		.status = static_cast<std::uint8_t>(completion.status),
		.qpn = completion.qpn,
		.peer = completion.source_qp,
		.id = completion.wr_id,
		.length = completion.length});
}

void TransportTrace::waits(const QueuePair& qp, transport::Waits why, Nanoseconds pause) noexcept {
	trace::write({.kind = Kind::waits,
		.code = static_cast<std::uint8_t>(why),
		.flags = locality(qp.outlet && qp.outlet->lossless),
		.qpn = qp.qpn,
		.peer = qp.destination_qpn,
		.psn = static_cast<std::uint32_t>(qp.next_psn) & 0xffffff,
		.address = pause});
}

}  // namespace verbena::observe

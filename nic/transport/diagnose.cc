// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/diagnose.h"

#include <cstring>

namespace verbena::transport {

using wire::Diagnosis;
using Cause = Diagnosis::Cause;

Diagnosis diagnose_key(const Context& context, const QueuePair& qp, std::uint32_t key, std::uint64_t address,
	std::uint64_t length, std::uint8_t access) {
	const memory::KeyTable::Fault fault = context.keys.diagnose(key, address, length, access, qp.accessor());
	Diagnosis d{.access = fault.access, .wanted = access, .key = key, .begin = fault.begin, .end = fault.end};
	switch (fault.kind) {
		case memory::KeyTable::Fault::Kind::unknown: d.cause = Cause::key_unknown; break;
		case memory::KeyTable::Fault::Kind::retired:
			d.cause = Cause::key_retired;
			d.age = context.now > fault.retired_at ? context.now - fault.retired_at : 0;
			break;
		case memory::KeyTable::Fault::Kind::domain: d.cause = Cause::key_domain; break;
		case memory::KeyTable::Fault::Kind::rights: d.cause = Cause::key_rights; break;
		case memory::KeyTable::Fault::Kind::bounds: d.cause = Cause::key_bounds; break;
		case memory::KeyTable::Fault::Kind::none: d.cause = Cause::key_memory; break;
	}
	return d;
}

Diagnosis diagnose_segments(const Context& context, const QueuePair& qp, const queues::Segment* segments,
	std::uint32_t count, std::uint8_t access) {
	Diagnosis gone;
	for (std::uint32_t i = 0; i < count; ++i) {
		Diagnosis d = diagnose_key(context, qp, segments[i].lkey, segments[i].address, segments[i].length, access);
		const bool found = d.cause != Cause::key_memory;
		d.detail = d.cause;
		d.cause = Cause::receive_fault;
		d.wr_id = i;
		if (found) return d;
		if (i == 0) gone = d;  // if all keys are right, a page of the first segment may be gone
	}
	return gone;
}

Diagnosis diagnose_receive(const Context& context, const QueuePair& qp, queues::Status status) {
	queues::ReceiveWqe& wqe = *qp.receive;
	if (status == queues::Status::local_length)
		return {.cause = Cause::too_long, .begin = wqe.length, .end = qp.receive_offset, .wr_id = wqe.wr_id};
	return diagnose_segments(context, qp, wqe.segments(), wqe.segment_count, memory::local_use | memory::local_write);
}

namespace {

constexpr std::uint8_t right_for(const wire::OpcodeFacts& facts) {
	switch (facts.operation) {
		case wire::Operation::write: return memory::remote_write;
		case wire::Operation::read_request: return memory::remote_read;
		default: return memory::remote_atomic;
	}
}

Diagnosis diagnose_access(const Context& context, const QueuePair& qp, const wire::Slot& slot) {
	const wire::OpcodeFacts& facts = wire::facts(slot.opcode());
	if (facts.atomic_eth)
		return diagnose_key(context, qp, slot.atomic.rkey.value, slot.atomic.address, 8, memory::remote_atomic);
	if (facts.reth)
		return diagnose_key(
			context, qp, slot.reth.rkey.value, slot.reth.address, slot.reth.dma_length, right_for(facts));
	if (facts.operation == wire::Operation::write)  // a later packet of the message
		return diagnose_key(context, qp, qp.write_rkey, qp.write_address, qp.cold->write_length, memory::remote_write);
	return {.cause = Cause::key_unknown, .key = slot.word};  // SEND with invalidate
}

Diagnosis diagnose_invalid(const QueuePair& qp, const wire::Slot& slot) {
	const wire::OpcodeFacts& facts = wire::facts(slot.opcode());
	if (facts.operation == wire::Operation::send || facts.operation == wire::Operation::write) {
		if (facts.reth && !(qp.remote_access & memory::remote_write))
			return {.cause = Cause::queue_pair_rights, .access = qp.remote_access, .wanted = memory::remote_write};
		return {.cause = Cause::sequence, .begin = qp.path_mtu()};
	}
	if (!(qp.remote_access & right_for(facts)))
		return {.cause = Cause::queue_pair_rights, .access = qp.remote_access, .wanted = right_for(facts)};
	if (facts.atomic_eth && slot.atomic.address % 8) return {.cause = Cause::unaligned, .begin = slot.atomic.address};
	return {.cause = Cause::reads, .begin = qp.cold->attributes.max_dest_rd_atomic};
}

// Why the request in `slot` got this verdict.
Diagnosis diagnose_request(const Context& context, const QueuePair& qp, const wire::Slot& slot, Verdict verdict) {
	switch (verdict) {
		case Verdict::rnr:
			return {.cause = Cause::no_receive,
				.begin = qp.receive_queue ? qp.receive_queue->committed() : 0,
				.end = qp.receive_queue ? qp.receive_queue->taken() : 0};
		case Verdict::nak_remote_access: return diagnose_access(context, qp, slot);
		case Verdict::nak_invalid_request: return diagnose_invalid(qp, slot);
		default: return {};
	}
}

// Writes the diagnosis to the peer, if it is on this host and of this user, and there is room.
void send_diagnosis(Context& context, QueuePair& qp, const Diagnosis& diagnosis) {
	if (qp.type != QpType::rc || !qp.outlet || !qp.outlet->lossless || qp.outlet->closed) return;
	// The addresses of regions are for a peer that may map this process's files, and so never for
	// one of another user.
	if (diagnosis.cause == Cause::none || !qp.outlet->slots.can_share()) return;
	const auto reserved = qp.outlet->slots.reserve(0, sizeof diagnosis);
	if (!reserved.slot) return;
	reserved.slot->set_bth(wire::diagnosis_opcode, {qp.destination_qpn}, {static_cast<std::uint32_t>(qp.expected_psn)},
		qp.mtu_code << wire::slot_mtu_shift);
	reserved.slot->payload_line = reserved.payload_line;
	std::memcpy(reserved.slot->bytes, &diagnosis, sizeof diagnosis);
	context.publish(*qp.outlet, reserved.slot, 0, {qp.qpn});
}

}  // namespace

void explain_refusal(Context& context, QueuePair& qp, const wire::Slot& slot, Verdict verdict, bool of_receive) {
	if (!context.explain.refusal || qp.type != QpType::rc) return;
	const bool known = of_receive && context.receive_fault.cause != Cause::none;
	const Diagnosis diagnosis = known ? context.receive_fault : diagnose_request(context, qp, slot, verdict);
	context.receive_fault = {};
	context.explain.refusal(context, qp, slot, diagnosis);
	send_diagnosis(context, qp, diagnosis);
}

}  // namespace verbena::transport

// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/answers.h"

#include <algorithm>

#include "nic/memory/guarded_copy.h"
#include "nic/transport/in_flight.h"
#include "nic/transport/recovery.h"

namespace verbena::transport {

using wire::Opcode;
using wire::Slot;
namespace syndrome = wire::syndrome;

namespace {

void schedule_nak(Context& context, QueuePair& qp, std::uint8_t code) {
	qp.pending_answer = nak_pending;
	qp.nak_syndrome = code;
	context.schedule_responses(qp);
}

}  // namespace

void refuse(Context& context, QueuePair& qp, Verdict verdict, bool completed) {
	if (qp.type == QpType::uc) {
		qp.in_message = InMessage::discard;
		if (verdict == Verdict::nak_remote_operation) enter_error(context, qp, ErrorCause::receive);
		return;
	}
	switch (verdict) {
		case Verdict::nak_sequence_error:
			++context.counters.out_of_sequence;
			qp.gap_reported = true;
			schedule_nak(context, qp, syndrome::nak_sequence_error);
			return;
		case Verdict::rnr:
			++context.counters.rnr_naks_sent;
			qp.gap_reported = true;  // drop later packets until the refused one comes again
			note_not_ready(context, qp);
			schedule_nak(context, qp, syndrome::rnr_nak | (qp.cold->attributes.min_rnr_timer & 0x1f));
			return;
		case Verdict::nak_invalid_request:
			schedule_nak(context, qp, syndrome::nak_invalid_request);
			if (!completed) context.raise(AsyncEvent::qp_request_error, qp.cold->user);
			break;
		case Verdict::nak_remote_access:
			schedule_nak(context, qp, syndrome::nak_remote_access);
			if (!completed) context.raise(AsyncEvent::qp_access_error, qp.cold->user);
			break;
		case Verdict::nak_remote_operation: schedule_nak(context, qp, syndrome::nak_remote_operation); break;
		default: return;
	}
	enter_error(context, qp, completed ? ErrorCause::receive : ErrorCause::refused);
}

namespace {

// A run of a READ response whose payload the peer copies from a file that both processes map.
struct SharedRun {
	wire::SharedPayload shared;
	std::uint32_t length = 0;
};

// The response's next run if its payload can be shared instead of copied (docs/decisions/0016).
std::optional<SharedRun> next_shared_run(Context& context, QueuePair& qp, const PendingResponse& response) {
	using wire::Direction;
	if (response.remaining < Direction::shared_payload_bytes_min || context.shared.empty() ||
		!qp.outlet->slots.can_share())
		return std::nullopt;
	const std::uint32_t length = std::min(response.remaining, Direction::shared_payload_bytes_max);
	const std::byte* from =
		context.keys.resolve(qp.receive_cache, response.rkey, response.address, length, memory::remote_read, qp);
	if (!from) return std::nullopt;  // send_response() finds the same and refuses
	const auto file = context.shared.find(reinterpret_cast<std::uint64_t>(from), length);
	if (!file) return std::nullopt;
	if (!context.note_sharing_outlet(*qp.outlet)) return std::nullopt;
	return SharedRun{{.file = file->file, .offset = file->offset, .descriptor = file->descriptor}, length};
}

// Sends the rest of one response, and returns true when none is left or it was refused; false if
// the outlet is full.
bool send_response(Context& context, QueuePair& qp, PendingResponse& response) {
	Outlet& outlet = *qp.outlet;
	const std::uint8_t flags = qp.mtu_code << wire::slot_mtu_shift;
	do {
		const auto share = response.atomic ? std::nullopt : next_shared_run(context, qp, response);
		const std::uint32_t n = share ? share->length : std::min(response.remaining, wire::Direction::run_bytes_max);
		const auto reserved = outlet.slots.reserve(share ? 0 : n,
			share                 ? sizeof(wire::SharedPayload)
				: response.atomic ? 8
								  : 0);
		if (!reserved.slot) return false;
		Slot& slot = *reserved.slot;
		Opcode opcode = Opcode::rc_atomic_acknowledge;
		if (!response.atomic) {
			const bool ends = n == response.remaining;
			opcode = response.begun ? (ends ? Opcode::rc_read_response_last : Opcode::rc_read_response_middle)
									: (ends ? Opcode::rc_read_response_only : Opcode::rc_read_response_first);
			if (n && !share) {
				const std::byte* from =
					context.keys.resolve(qp.receive_cache, response.rkey, response.address, n, memory::remote_read, qp);
				if (!from || !memory::guarded_copy(reserved.payload, from, n)) {
					// The region disappeared during the READ: send a NAK for the first packet that
					// is missing.
					qp.expected_psn = response.psn;
					qp.cold->pending_count = 0;
					refuse(context, qp, Verdict::nak_remote_access);
					return true;
				}
			}
		}
		slot.set_bth(opcode, {qp.destination_qpn}, {static_cast<std::uint32_t>(response.psn)}, flags);
		slot.payload_line = reserved.payload_line;
		slot.set_aeth(syndrome::ack, response.msn);
		if (response.atomic) slot.atomic_result = response.result;
		if (share) context.publish_shared(outlet, &slot, share->shared, n, response.rkey, {qp.qpn});
		else context.publish(outlet, &slot, n, {qp.qpn});
		const std::uint32_t packets = qp.packets_for(n);
		response.psn += packets;
		response.address += n;
		response.remaining -= n;
		response.begun = true;
	} while (response.remaining);
	return true;
}

// The pending ACK or NAK. One ACK answers all requests of a pass; it has the last PSN executed, a
// NAK the expected one (IBA 9.7.5).
struct Answer {
	std::uint8_t syndrome;
	wire::Psn24 psn;
};

Answer pending_answer(const QueuePair& qp) {
	const bool nak = qp.pending_answer & nak_pending;
	return {nak ? qp.nak_syndrome : syndrome::ack,
		{static_cast<std::uint32_t>(nak ? qp.expected_psn : qp.expected_psn - 1) & 0xffffff}};
}

bool has_pending_responses(const QueuePair& qp) { return qp.responses_in_slots && qp.cold->pending_count != 0; }

}  // namespace

bool send_responses(Context& context, QueuePair& qp) {
	ColdQueuePair* cold = nullptr;
	if (qp.responses_in_slots) {
		cold = qp.cold.get();
		while (cold->pending_count) {
			if (!send_response(context, qp, cold->pending[cold->pending_first])) return false;
			if (!cold->pending_count) break;
			cold->pending_first = (cold->pending_first + 1) % cold->pending.size();
			--cold->pending_count;
		}
	}
	if (qp.pending_answer == ack_none) return true;
	context.touch(*qp.outlet);
	const auto [code, psn] = pending_answer(qp);
	const bool nak = qp.pending_answer & nak_pending;
	// A NAK takes a slot and follows its diagnosis, because records are read before slots.
	if (qp.outlet->lossless && !qp.responses_in_slots && !nak) {
		if (!qp.outlet->acks.write(code, psn, {qp.destination_qpn})) return false;
		if (context.observer) [[unlikely]]
			context.observer->acknowledged(qp, code, psn);
	} else {
		const auto reserved = qp.outlet->slots.reserve(0, 0);
		if (!reserved.slot) return false;
		reserved.slot->set_bth(Opcode::rc_acknowledge, {qp.destination_qpn}, psn, qp.mtu_code << wire::slot_mtu_shift);
		reserved.slot->payload_line = reserved.payload_line;
		reserved.slot->set_aeth(code, qp.msn);
		context.publish(*qp.outlet, reserved.slot, 0, {qp.qpn});
	}
	qp.pending_answer = ack_none;
	qp.outlet->acknowledged |= !nak;
	return true;
}

std::optional<Refusal> last_answer(const QueuePair& qp) {
	if (qp.pending_answer == ack_none || !qp.outlet || !qp.outlet->lossless || qp.outlet->closed) return {};
	if (has_pending_responses(qp)) return {};
	const auto [code, psn] = pending_answer(qp);
	return Refusal{qp.outlet, psn, {qp.destination_qpn}, {qp.qpn}, code};
}

bool ack_can_wait(const QueuePair& qp) {
	if (qp.pending_answer != ack_pending || !qp.outlet || qp.outlet->closed || has_pending_responses(qp)) return false;
	if (qp.messages_to_acknowledge == several_messages) return false;
	return !qp.outlet->lossless || (qp.only_silent && qp.outlet->peer_needs_kicks);
}

}  // namespace verbena::transport

// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/completer.h"

#include <algorithm>

#include "nic/memory/guarded_copy.h"
#include "nic/transport/doubt.h"
#include "nic/transport/in_flight.h"
#include "nic/transport/recovery.h"
#include "nic/transport/requester.h"
#include "nic/transport/retry_timer.h"

namespace verbena::transport {

using queues::Segment;
using queues::SendWqe;
using queues::Status;
namespace syndrome = wire::syndrome;

namespace {

// An ACK, NAK or response has shown that the peer received every request below `target` (IBA
// 9.7.5.1.2). Retires those requests. If a READ or atomic among them has no response, the outlet
// has lost it. This is an implied NAK (IBA 9.7.6): the requester sends again, at most once per
// round trip.
void acknowledge_up_to(Context& context, QueuePair& qp, Psn target) {
	const Psn before = qp.una;
	retire_to(context, qp, target);
	if (qp.outlet->lossless) return;
	if (qp.una != before) note_progress(context, qp, before);
	if (qp.una < target && qp.una < qp.next_psn &&
		(!qp.cold->rewound_for_gap || nak_needs_resend(context, qp, qp.una))) {
		qp.cold->rewound_for_gap = true;
		resend_from(context, qp, qp.una);
	}
}

// Continues sending after an acknowledgement, which may have made room in the window.
void resume(Context& context, QueuePair& qp) {
	if (qp.state != QpState::rts && qp.state != QpState::sqd) return;
	qp.blocked &= ~blocked_window;
	if (qp.sq_next != qp.sq_head.load(std::memory_order_acquire)) transmit(context, qp);
}

// The peer has no receive posted for the packet `psn` (IBA 9.7.5.2.8). Pauses the requester for the
// time that `code` stands for; after it the requester sends again from `psn` on. The RNR NAK that
// follows rnr_retry such pauses without progress fails the send queue, over a network after some
// more tries (doubt.h); an rnr_retry of 7 means no limit.
void handle_rnr_nak(Context& context, QueuePair& qp, std::uint8_t code, Psn psn) {
	++context.counters.rnr_naks_received;
	acknowledge_up_to(context, qp, psn);
	// A READ before `psn` has no response yet, or nothing from `psn` on is in flight.
	if (qp.una != psn || psn >= qp.next_psn) return resume(context, qp);
	ColdQueuePair& cold = *qp.cold;
	cold.retries_left = cold.attributes.retry_count;  // the peer is alive
	if (cold.una_at_rnr != qp.una) {
		cold.rnr_retries_left = cold.attributes.rnr_retry;
		cold.doubt.believe_rnr_at = 0;
	}
	cold.una_at_rnr = qp.una;
	Nanoseconds pause = rnr_pause(code);
	if (cold.rnr_retries_left == 0) {
		if (qp.outlet->lossless || believe_rnr_nak(context, qp))
			return fail_send_queue(context, qp, Status::rnr_retry_exceeded);
		pause = retry_distance(qp);
	} else if (cold.attributes.rnr_retry != 7) {
		--cold.rnr_retries_left;
	}
	rewind_to(qp, psn);
	if (context.observer) [[unlikely]]
		context.observer->waits(qp, Waits::not_ready, pause);
	pause_requester(context, qp, pause);
	if (!qp.outlet->lossless) note_sign_of_life(context, qp);
}

// The peer misses the packet `psn`. Sends again from this packet on, at most once per round trip,
// because the peer repeats its NAK while the packet is missing.
void handle_sequence_nak(Context& context, QueuePair& qp, Psn psn) {
	++context.counters.sequence_naks_received;
	note_sign_of_life(context, qp);
	acknowledge_up_to(context, qp, psn);
	if (qp.una != psn || psn >= qp.next_psn) return resume(context, qp);
	if (nak_needs_resend(context, qp, psn)) resend_from(context, qp, psn);
	resume(context, qp);
}

// Same host: the peer has no queue pair that can receive the request (syndrome_not_receiving in
// completer.h). Takes one retry from retry_count and fails the send queue if none was left.
// Otherwise the requester pauses for the ACK timeout, at most 1 s, and sends again. An ACK timeout
// of 0 means no limit: the requester then retries once a second for ever.
void handle_not_receiving(Context& context, QueuePair& qp) {
	ColdQueuePair& cold = *qp.cold;
	if (qp.una >= qp.next_psn || (qp.blocked & blocked_rnr)) return;
	if (cold.una_at_timer != qp.una) cold.retries_left = cold.attributes.retry_count;
	cold.una_at_timer = qp.una;
	const Nanoseconds timeout = ack_timeout(cold.attributes.timeout);
	if (timeout != never && cold.retries_left-- == 0) return fail_send_queue(context, qp, Status::retry_exceeded);
	++context.counters.timeouts;
	++context.counters.retransmissions;
	rewind_to(qp, qp.una);
	const Nanoseconds pause = std::min<Nanoseconds>(timeout, 1'000'000'000);
	if (context.observer) [[unlikely]]
		context.observer->waits(qp, Waits::not_receiving, pause);
	pause_requester(context, qp, pause);
}

// Same host: an ACK or NAK came whose PSN belongs to no request in flight. On the same host nothing
// is lost, so such an answer shows that the two ends count their PSNs from different numbers, for
// example because one end was reset, and the expected answer never comes. No timer runs on the same
// host, so this function arms one that fails the send queue (handle_retry_timer).
void handle_unexpected_psn(Context& context, QueuePair& qp) {
	ColdQueuePair& cold = *qp.cold;
	const Nanoseconds timeout = ack_timeout(cold.attributes.timeout);
	if (qp.una >= qp.next_psn || cold.timer_armed || timeout == never) return;
	cold.retries_left = cold.attributes.retry_count;
	cold.una_at_timer = qp.una;
	cold.timer_armed = true;
	context.timers.schedule(cold, context.fresh_now() + timeout * (cold.attributes.retry_count + 1));
}

// The completion status of a request that the peer refused with the syndrome `nak` (IBA 11.6.2).
Status status_of(std::uint8_t nak) {
	switch (nak) {
		case syndrome::nak_invalid_request: return Status::remote_invalid_request;
		case syndrome::nak_remote_access: return Status::remote_access;
		case syndrome::nak_remote_operation: return Status::remote_operation;
		default: return Status::bad_response;
	}
}

// Copies a response's bytes into the segments of its READ or atomic, from byte `offset` of the
// request on.
Status scatter(
	Context& context, QueuePair& qp, SendWqe& wqe, std::uint32_t offset, const std::byte* from, std::uint32_t length) {
	for (std::uint8_t i = 0; length && i < wqe.segment_count; ++i) {
		const Segment& segment = wqe.segments()[i];
		if (offset >= segment.length) {
			offset -= segment.length;
			continue;
		}
		const std::uint32_t n = std::min(length, segment.length - offset);
		std::byte* to = context.keys.resolve(
			qp.send_cache, segment.lkey, segment.address + offset, n, context.read_sink_access, qp);
		if (!to || !memory::guarded_copy(to, from, n)) return Status::local_protection;
		from += n;
		length -= n;
		offset = 0;
	}
	return length ? Status::local_length : Status::success;
}

}  // namespace

void handle_acknowledgement(Context& context, QueuePair& qp, std::uint8_t code, wire::Psn24 psn24) {
	if (qp.state != QpState::rts && qp.state != QpState::sqd) return;
	const Psn psn = wire::nearest(qp.una, psn24);
	// After a rewind, `next_psn` lies below PSNs that the requester has sent before.
	const Psn sent_end = std::max(qp.next_psn, qp.cold->recovery.sent_end);
	if (syndrome::is_ack(code)) {
		if (psn >= sent_end || psn + 1 < qp.una) {
			return qp.outlet->lossless ? handle_unexpected_psn(context, qp)
									   : note_stray(context, qp, psn, sent_end, false);
		}
		if (psn < qp.una) return;  // a repeated ACK
		skip_to(qp, psn + 1);
		acknowledge_up_to(context, qp, psn + 1);
		return resume(context, qp);
	}
	if (code == syndrome_not_receiving && qp.outlet->lossless) return handle_not_receiving(context, qp);
	const bool ends_connection = !syndrome::is_rnr(code) && code != syndrome::nak_sequence_error;
	if (!qp.outlet->lossless) {
		if (psn < qp.una || psn >= sent_end) return note_stray(context, qp, psn, sent_end, ends_connection);
		if (ends_connection) return doubt_nak(context, qp, psn, status_of(code));
	}
	if (psn < qp.una || psn > sent_end) return handle_unexpected_psn(context, qp);
	// A NAK acknowledges everything before its PSN.
	skip_to(qp, psn);
	if (syndrome::is_rnr(code)) return handle_rnr_nak(context, qp, code & 0x1f, psn);
	if (code == syndrome::nak_sequence_error) return handle_sequence_nak(context, qp, psn);
	acknowledge_up_to(context, qp, psn);
	if (qp.state == QpState::rts || qp.state == QpState::sqd) fail_send_queue(context, qp, status_of(code));
}

namespace {

// The response with `psn` is not one that its request can have. Another host may have forged it, so
// that the true one is still to come.
void refuse_response(Context& context, QueuePair& qp, Psn psn) {
	if (!qp.outlet->lossless) return doubt_nak(context, qp, psn, Status::bad_response);
	fail_send_queue(context, qp, Status::bad_response);
}

// The common body of both public functions below. `shared_by` is null unless the payload lies in a
// file of the peer.
void handle_response(Context& context, QueuePair& qp, const wire::Slot& slot, const std::byte* payload,
	const wire::SlotReader* shared_by) {
	if (qp.state != QpState::rts && qp.state != QpState::sqd) return;
	const wire::OpcodeFacts& facts = wire::facts(slot.opcode());
	const Psn psn = wire::nearest(qp.una, slot.psn());
	if (psn < qp.una || psn >= qp.next_psn) return;  // a duplicate, or no such request

	// Only the response that the oldest request in flight waits for is used. If `una` stays below
	// `psn`, an earlier response was lost.
	acknowledge_up_to(context, qp, psn);
	if (qp.una != psn || (qp.state != QpState::rts && qp.state != QpState::sqd)) return resume(context, qp);
	const std::uint32_t tail = qp.sq_tail.load(std::memory_order_relaxed);
	if (tail == qp.sq_next && qp.message_offset == 0) return;
	SendWqe& wqe = qp.wqe(tail);
	if (!wqe.reads() || psn < wqe.first_psn || psn >= wqe.end_psn()) return;

	const bool atomic = facts.operation == wire::Operation::atomic_acknowledge;
	if (atomic == (wqe.opcode == queues::SendOpcode::rdma_read)) return refuse_response(context, qp, psn);
	Status status;
	std::uint32_t packets = 1;
	if (atomic) {
		status = scatter(
			context, qp, wqe, 0, reinterpret_cast<const std::byte*>(&slot.atomic_result), sizeof slot.atomic_result);
	} else {
		const std::uint32_t offset = static_cast<std::uint32_t>(psn - wqe.first_psn) << qp.mtu_shift;
		packets = qp.packets_for(slot.length);
		const bool ends = psn + packets == wqe.end_psn();
		const bool length_fits = ends ? slot.length == wqe.length - offset
									  : slot.length % qp.path_mtu() == 0 && slot.length < wqe.length - offset;
		// On a link that can lose packets a READ is requested in parts. The response to each part
		// ends with LAST, so LAST need not be the end of the READ.
		if (!length_fits || (ends && !facts.last) || (!ends && facts.last && qp.outlet->lossless))
			return refuse_response(context, qp, psn);
		status = payload ? scatter(context, qp, wqe, offset, payload, slot.length) : Status::remote_operation;
		// The peer withdrew its permission during the copy, so the bytes may be other data.
		if (status == Status::success && shared_by && !shared_by->still_shared()) status = Status::remote_access;
	}
	if (status != Status::success) return fail_send_queue(context, qp, status);
	const Psn before = qp.una;
	qp.una += packets;
	if (!qp.outlet->lossless) note_progress(context, qp, before);
	if (qp.una == wqe.end_psn()) retire_to(context, qp, qp.una);
	resume(context, qp);
}

}  // namespace

void handle_response(Context& context, QueuePair& qp, const wire::Slot& slot, const std::byte* payload) {
	handle_response(context, qp, slot, payload, nullptr);
}

void handle_shared_response(Context& context, QueuePair& qp, const wire::Slot& slot, const std::byte* payload,
	const wire::SlotReader& shared_by) {
	handle_response(context, qp, slot, payload, &shared_by);
}

}  // namespace verbena::transport

// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/in_flight.h"

#include <algorithm>
#include <utility>

#include "nic/transport/direct.h"
#include "nic/transport/recovery.h"

namespace verbena::transport {

using queues::Completed;
using queues::Completion;
using queues::SendWqe;
using queues::Status;

namespace {

// By SendOpcode.
constexpr Completed completed_as[] = {
	Completed::rdma_write,
	Completed::rdma_write,
	Completed::send,
	Completed::send,
	Completed::rdma_read,
	Completed::compare_swap,
	Completed::fetch_add,
	Completed::local_invalidate,
	Completed::bind_window,
	Completed::send,
};

// Frees the slot of the oldest WQE; the release store lets a poster reuse it.
void pop_sent(QueuePair& qp) {
	qp.sq_tail.store(qp.sq_tail.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void observe(Context& context, const QueuePair& qp, const SendWqe& wqe, Status status, bool direct = false) {
	if (context.observer) [[unlikely]]
		context.observer->finished(qp, wqe, status, direct);
}

// Removes the oldest WQE from the send queue and pushes its completion. The slot is free before
// the completion can be seen, because a program may refill its queue to the full depth on the
// strength of that completion. After the pop a poster may overwrite the WQE.
void pop_and_complete(Context& context, QueuePair& qp, const SendWqe& wqe, Status status) {
	const Completion completion{.wr_id = wqe.wr_id,
		.length = wqe.length,
		.qpn = qp.qpn,
		.status = status,
		.opcode = completed_as[static_cast<int>(wqe.opcode)]};
	pop_sent(qp);
	context.complete(*qp.send_cq, completion, false);
}

}  // namespace

void retire_to(Context& context, QueuePair& qp, Psn target) {
	for (;;) {
		const std::uint32_t tail = qp.sq_tail.load(std::memory_order_relaxed);
		if (tail == qp.sq_next) break;
		SendWqe& wqe = qp.wqe(tail);
		if (wqe.reads()) {
			if (qp.una < wqe.end_psn()) {
				// Only responses advance `una` through a READ. Everything before it is done.
				qp.una = std::max(qp.una, std::min(target, wqe.first_psn));
				return;
			}
			--qp.reads_in_flight;
		} else if (wqe.end_psn() > target) {
			break;
		}
		qp.una = std::max(qp.una, wqe.end_psn());
		observe(context, qp, wqe, Status::success);
		if (qp.signal_all || wqe.has(queues::send_signaled)) pop_and_complete(context, qp, wqe, Status::success);
		else pop_sent(qp);
	}
	// The same for a READ of which only a part was requested, so that sq_next is still on it.
	const bool in_read = qp.message_offset != 0 && qp.sq_tail.load(std::memory_order_relaxed) == qp.sq_next &&
		qp.wqe(qp.sq_next).reads();
	qp.una = std::max(qp.una, std::min(target, in_read ? qp.wqe(qp.sq_next).first_psn : qp.next_psn));
	if (qp.pending_error != Status::success && qp.sq_tail.load(std::memory_order_relaxed) == qp.sq_next) [[unlikely]] {
		const Status status = qp.pending_error;
		qp.pending_error = Status::success;
		fail_send_queue(context, qp, status);
	} else if (qp.state == QpState::sqd) [[unlikely]] {
		report_drained(context, qp);
	}
}

void retire_direct(Context& context, QueuePair& qp) {
	const SendWqe& wqe = qp.wqe(qp.sq_next++);
	observe(context, qp, wqe, Status::success, true);
	if (qp.signal_all || wqe.has(queues::send_signaled)) pop_and_complete(context, qp, wqe, Status::success);
	else pop_sent(qp);
	if (qp.state == QpState::sqd) [[unlikely]]
		report_drained(context, qp);
}

void note_begun(QueuePair& qp) {
	const std::uint32_t tail = qp.sq_tail.load(std::memory_order_relaxed);
	const bool in_part = qp.message_offset || qp.cold->direct_offset;
	const std::uint32_t now = qp.sq_next + (in_part ? 1 : 0) - tail, before = qp.cold->sq_begun - tail;
	// sq_begun may be older than sq_tail; then `before` wraps and exceeds what is posted.
	if (before < now || before > qp.sq_head.load(std::memory_order_relaxed) - tail) qp.cold->sq_begun = tail + now;
}

void report_drained(Context& context, QueuePair& qp) {
	if (!qp.cold->draining || qp.sq_tail.load(std::memory_order_relaxed) != qp.cold->sq_begun) return;
	qp.cold->draining = false;
	context.raise(AsyncEvent::sq_drained, qp.cold->user);
}

void rewind_to(QueuePair& qp, Psn psn) {
	std::uint32_t index = qp.sq_tail.load(std::memory_order_relaxed);
	const std::uint32_t end = qp.sq_next + (qp.message_offset ? 1 : 0);
	std::uint8_t reads = 0;
	// Find the request that holds `psn`; local operations before it take no PSN and are passed
	// over.
	for (; index != end; ++index) {
		SendWqe& wqe = qp.wqe(index);
		if (wqe.end_psn() > psn) break;
		if (wqe.reads()) ++reads;
	}
	if (index == end) return;
	note_begun(qp);
	SendWqe& wqe = qp.wqe(index);
	qp.sq_next = index;
	qp.message_offset = static_cast<std::uint32_t>(psn - wqe.first_psn) << qp.mtu_shift;
	qp.reads_in_flight = reads;
	qp.next_psn = psn;
	qp.blocked &= ~blocked_window;
	qp.cold->recovery.read_continues = false;
	qp.cold->recovery.timed_psn = 0;  // its answer would be ambiguous now
	qp.pending_error = Status::success;
}

void skip_to(QueuePair& qp, Psn psn) {
	while (qp.next_psn < psn) {
		SendWqe& wqe = qp.wqe(qp.sq_next);
		if (wqe.end_psn() > psn) {
			if (wqe.reads()) return;  // only responses advance it
			qp.message_offset = static_cast<std::uint32_t>(psn - wqe.first_psn) << qp.mtu_shift;
			qp.next_psn = psn;
			return;
		}
		if (wqe.reads() && !std::exchange(qp.cold->recovery.read_continues, false)) ++qp.reads_in_flight;
		qp.next_psn = wqe.end_psn();
		qp.message_offset = 0;
		++qp.sq_next;
	}
}

void flush_send_queue(Context& context, QueuePair& qp) {
	const std::uint32_t head = qp.sq_head.load(std::memory_order_acquire);
	for (std::uint32_t index = qp.sq_tail.load(std::memory_order_relaxed); index != head; ++index) {
		observe(context, qp, qp.wqe(index), Status::flushed);
		pop_and_complete(context, qp, qp.wqe(index), Status::flushed);
	}
	qp.sq_next = head;
	qp.message_offset = 0;
	qp.cold->direct_offset = 0;
	qp.reads_in_flight = 0;
	qp.cold->recovery.read_continues = false;
	stop_sending(qp);
	qp.una = qp.next_psn;
	qp.pending_error = Status::success;
}

void flush_receive_queue(Context& context, QueuePair& qp) {
	const auto flushed = [&](std::uint64_t wr_id) {
		context.complete(*qp.recv_cq,
			Completion{.wr_id = wr_id, .qpn = qp.qpn, .status = Status::flushed, .opcode = Completed::receive}, false);
	};
	if (qp.receive) flushed(qp.receive->wr_id);
	qp.receive = nullptr;
	qp.in_message = InMessage::none;
	if (!qp.receive_queue) return;
	if (qp.receive_queue->shared) {
		if (!qp.cold->last_wqe_reached) context.raise(AsyncEvent::last_wqe_reached, qp.cold->user);
		qp.cold->last_wqe_reached = true;
		return;
	}
	while (queues::ReceiveWqe* wqe = qp.receive_queue->front()) {
		const std::uint64_t wr_id = wqe->wr_id;
		qp.receive_queue->pop();  // before the completion can be seen, as in pop_and_complete()
		flushed(wr_id);
	}
}

void enter_error(Context& context, QueuePair& qp, ErrorCause cause) {
	if (context.explain.flush) {
		const bool own = qp.receive_queue && !qp.receive_queue->shared;
		const std::uint32_t sends =
			qp.sq_head.load(std::memory_order_acquire) - qp.sq_tail.load(std::memory_order_relaxed);
		context.explain.flush(
			context, qp, cause, sends, (own ? qp.receive_queue->posted() : 0) + (qp.receive != nullptr));
	}
	if (context.observer) context.observer->ends(qp);
	qp.state = QpState::error;
	publish_rights(context, qp);
	qp.blocked &= blocked_ring;  // the QP stays on its outlet's waiting list
	flush_send_queue(context, qp);
	// A thread that posts receives reads the state after it has released the queue's lock.
	if (qp.receive_queue && !qp.receive_queue->shared) qp.receive_queue->wait_for_producer();
	flush_receive_queue(context, qp);
}

void fail_send_queue(Context& context, QueuePair& qp, Status status) {
	if (status == Status::retry_exceeded) {
		++context.counters.retries_exceeded;
		if (context.report_silence && qp.outlet && !qp.outlet->lossless) context.report_silence(qp);
	}
	if (status == Status::rnr_retry_exceeded) ++context.counters.rnr_retries_exceeded;
	const std::uint32_t tail = qp.sq_tail.load(std::memory_order_relaxed);
	const bool any = tail != qp.sq_head.load(std::memory_order_acquire);
	if (context.explain.failure) context.explain.failure(context, qp, any ? &qp.wqe(tail) : nullptr, status);
	if (any) {
		observe(context, qp, qp.wqe(tail), status);
		pop_and_complete(context, qp, qp.wqe(tail), status);
	}
	if (qp.type == QpType::rc) {
		enter_error(context, qp, ErrorCause::request);
		return;
	}
	qp.state = QpState::sqe;
	flush_send_queue(context, qp);
}

}  // namespace verbena::transport

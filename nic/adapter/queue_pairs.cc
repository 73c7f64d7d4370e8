// SPDX-License-Identifier: Apache-2.0
// ChannelAdapter: queue pairs are created, modified, reset and destroyed (IBA 10.3.1, 11.2.4).
#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "base/check.h"
#include "nic/adapter/channel_adapter.h"
#include "nic/transport/answers.h"
#include "nic/transport/direct.h"
#include "nic/transport/in_flight.h"
#include "nic/transport/recovery.h"
#include "nic/transport/requester.h"

namespace verbena::adapter {

using transport::ColdQueuePair;
using transport::Outlet;
using transport::QpState;
using transport::QueuePair;

QueuePair* ChannelAdapter::create_qp(const QpInit& init) {
	// All memory first: a failure then leaves no queue pair behind.
	auto own_cold = std::make_unique<ColdQueuePair>();
	ColdQueuePair& cold = *own_cold;
	cold.user = init.user;
	cold.protection_domain = init.protection_domain;
	cold.send_segments_max = init.send_segments;
	cold.inline_max = init.inline_bytes;

	// All entries of the ring have one stride: header, then segments or inline bytes, which share
	// the same space.
	const std::uint32_t body = std::max<std::uint32_t>(init.send_segments * sizeof(queues::Segment), init.inline_bytes);
	const auto stride = static_cast<std::uint16_t>((sizeof(queues::SendWqe) + body + 31) & ~31u);
	const std::uint32_t entries = std::bit_ceil(std::max(init.send_entries, 1u));
	cold.send_ring = std::make_unique<std::byte[]>(std::size_t{entries} * stride);
	if (!init.shared_receive_queue)
		cold.own_receive_queue = std::make_unique<queues::ReceiveQueue>(
			std::max(init.receive_entries, 1u), std::max<std::uint32_t>(init.receive_segments, 1));

	QueuePair* qp = table_.create();
	if (!qp) return nullptr;
	qp->cold = std::move(own_cold);
	cold.qp = qp;
	cold.created = ++created_;
	qp->sq_stride = stride;
	qp->sq_mask = entries - 1;
	qp->sq = cold.send_ring.get();
	qp->type = init.type;
	qp->signal_all = init.signal_all;
	qp->send_cq = init.send_cq;
	qp->recv_cq = init.recv_cq;
	qp->receive_queue = init.shared_receive_queue ? init.shared_receive_queue : cold.own_receive_queue.get();
	return qp;
}

// Back to the state of a new queue pair. Its queues keep their memory, and the send queue keeps its
// position: posters own `sq_head`, so the queue is emptied by moving the other positions up to it.
void ChannelAdapter::reset(QueuePair& qp) {
	ColdQueuePair& cold = *qp.cold;
	forget(qp);
	const std::uint32_t head = qp.sq_head.load(std::memory_order_relaxed);
	qp.sq_next = head;
	qp.sq_tail.store(head, std::memory_order_relaxed);
	qp.message_offset = 0;
	cold.direct_offset = 0;
	qp.reads_in_flight = 0;
	qp.pending_error = queues::Status::success;
	qp.blocked = 0;
	qp.send_cache = qp.receive_cache = {};
	qp.receive = nullptr;
	qp.receive_offset = 0;
	qp.msn = 0;
	qp.pending_answer = transport::ack_none;
	qp.in_message = transport::InMessage::none;
	qp.gap_reported = qp.responses_in_slots = false;
	if (cold.own_receive_queue) cold.own_receive_queue->clear();
	cold.rewound_for_gap = cold.draining = cold.communication_established = cold.last_wqe_reached = false;
	cold.una_at_timer = cold.una_at_rnr = ~transport::Psn{0};
	cold.recovery = {};
	cold.doubt = {};
	cold.diagnosis.reset();
	cold.pending_first = cold.pending_count = 0;
	qp.outlet = nullptr;
	qp.state = QpState::reset;
}

// Marks READ responses that share memory by reference as revoked, unless the peer has read them:
// after a reset the program may overwrite that memory, so the peer must not use it.
void ChannelAdapter::revoke_shared_payloads(QueuePair& qp) {
	if (qp.outlet && qp.outlet->shares_payloads)
		qp.outlet->slots.revoke([&](std::uint32_t, wire::Qpn source) { return source.value == qp.qpn; });
}

// Takes the queue pair off every list of the adapter and its outlet, and stops its timer. Its last
// answer stays behind.
void ChannelAdapter::forget(QueuePair& qp) {
	if (context_.observer) context_.observer->ends(qp);
	if (const auto last = transport::last_answer(qp)) context_.refuse(*last);
	context_.timers.cancel(*qp.cold);
	revoke_shared_payloads(qp);
	transport::stop_sending(qp);
	qp.cold->timer_armed = false;
	if (qp.on_responding_list) context_.unschedule_responses(qp);
	qp.on_responding_list = false;
	if (Outlet* outlet = qp.cold->waiting_on)
		transport::unlink<&QueuePair::next_waiting>(outlet->waiting_first, outlet->waiting_last, qp);
	qp.cold->waiting_on = nullptr;
}

bool ChannelAdapter::modify_qp(QueuePair& qp, const QpChange& change) {
	const std::uint32_t mask = change.mask;
	if ((mask & transport::qp_current_state) && change.current_state != qp.state) return false;
	const QpState to = mask & transport::qp_state ? change.state : qp.state.load();
	if (!transport::modify_allowed(qp.type, qp.state, to, mask)) return false;
	set_attributes(qp, change);
	// Rights are withdrawn before memory can be used for something else, and given last.
	if (to != qp.state) change_state(qp, to, change.sqd_notify);
	transport::publish_rights(context_, qp);
	return true;
}

void ChannelAdapter::set_attributes(QueuePair& qp, const QpChange& change) {
	using namespace transport;
	const std::uint32_t mask = change.mask;
	ColdQueuePair& cold = *qp.cold;
	QueuePairAttributes& a = cold.attributes;
	const QueuePairAttributes& b = change.attributes;
	// The hot path reads copies of some attributes in `qp`; `cold` keeps all for ibv_query_qp(3).
	if (mask & qp_access_flags) qp.remote_access = a.access = b.access;
	if (mask & qp_pkey_index) a.pkey_index = b.pkey_index;
	if (mask & qp_qkey) qp.q_key = a.q_key = b.q_key;
	if (mask & qp_timeout) a.timeout = b.timeout;
	if (mask & qp_retry_count) cold.retries_left = a.retry_count = b.retry_count;
	if (mask & qp_rnr_retry) cold.rnr_retries_left = a.rnr_retry = b.rnr_retry;
	if (mask & qp_min_rnr_timer) a.min_rnr_timer = b.min_rnr_timer;
	if (mask & qp_max_rd_atomic) a.max_rd_atomic = qp.reads_max = b.max_rd_atomic;
	if (mask & qp_max_dest_rd_atomic) {
		a.max_dest_rd_atomic = b.max_dest_rd_atomic;
		cold.pending.assign(std::size_t{2} * std::max<std::uint8_t>(b.max_dest_rd_atomic, 1), {});
		cold.atomic_results.assign(std::max<std::uint8_t>(b.max_dest_rd_atomic, 1), {});
		cold.pending_first = cold.pending_count = 0;
	}
	if (mask & qp_path_mtu) {
		a.path_mtu = qp.mtu_code = b.path_mtu;
		qp.mtu_shift = static_cast<std::uint8_t>(7 + b.path_mtu);
	}
	if (mask & qp_destination_qpn) qp.destination_qpn = change.destination_qpn;
	// PSNs are absolute inside. Starting at 2^32 keeps them above 0, which means none, and lets
	// differences to earlier PSNs stay positive.
	if (mask & qp_rq_psn) qp.expected_psn = (Psn{1} << 32) + change.receive_psn;
	if (mask & qp_sq_psn) qp.next_psn = qp.una = (Psn{1} << 32) + change.send_psn;
	if (mask & qp_rq_psn) cold.first_receive_psn = change.receive_psn;
	if (mask & qp_sq_psn) cold.first_send_psn = change.send_psn;
	if (mask & qp_av) {
		std::copy_n(b.source_gid, 16, a.source_gid);
		std::copy_n(b.destination_gid, 16, a.destination_gid);
		if (change.outlet) {
			stop_sending(qp);
			qp.outlet = change.outlet;
		}
	}
}

// IBA 10.3.1.
void ChannelAdapter::change_state(QueuePair& qp, QpState to, bool sqd_notify) {
	const QpState from = qp.state;
	switch (to) {
		// Outstanding requests are discarded without completions.
		case QpState::reset: return reset(qp);
		case QpState::error:
			revoke_shared_payloads(qp);
			return transport::enter_error(context_, qp, transport::ErrorCause::program);
		case QpState::sqd:
			qp.state = to;
			// Requests that have begun are completed, later ones wait until RTS.
			qp.cold->draining = sqd_notify;
			transport::note_begun(qp);
			return transport::report_drained(context_, qp);
		case QpState::rts:
			qp.state = to;
			// From SQD or SQE: requests may have been posted meanwhile.
			if (from != QpState::rtr) transport::transmit(context_, qp);
			return;
		default: qp.state = to;
	}
}

void ChannelAdapter::destroy_qp(QueuePair& qp) {
	check(!is_multicast_member(qp), "a queue pair leaves its multicast groups before it is destroyed");
	context_.rights.withdraw_queue_pair(qp.qpn);
	forget(qp);
	table_.destroy(qp);
}

}  // namespace verbena::adapter

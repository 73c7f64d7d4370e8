// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/requester.h"

#include <algorithm>
#include <optional>

#include "nic/memory/guarded_copy.h"
#include "nic/transport/direct.h"
#include "nic/transport/in_flight.h"
#include "nic/transport/recovery.h"

namespace verbena::transport {

using queues::Segment;
using queues::SendOpcode;
using queues::SendWqe;
using queues::Status;
using wire::Opcode;
using wire::Slot;

namespace {

// Appends the QP to the outlet's waiting list. A QP that resume_waiting() has just taken from the
// front, and that found no room to send anything, goes back to the front.
void wait_for_room(Context& context, QueuePair& qp, Outlet& outlet) {
	if (qp.blocked & blocked_ring) return;
	qp.blocked |= blocked_ring;
	qp.cold->waiting_on = &outlet;
	if (context.observer) [[unlikely]]
		context.observer->waits(qp, Waits::for_room, 0);
	if (!outlet.waiting_first) outlet.full_since = context.fresh_now();
	if (outlet.resuming && outlet.steps() == outlet.resumed_at) {
		qp.next_waiting = outlet.waiting_first;
		outlet.waiting_first = &qp;
		if (!outlet.waiting_last) outlet.waiting_last = &qp;
		return;
	}
	qp.next_waiting = nullptr;
	(outlet.waiting_last ? outlet.waiting_last->next_waiting : outlet.waiting_first) = &qp;
	outlet.waiting_last = &qp;
}

// Copies bytes [offset, offset + length) of a message into `to`. Returns false if the QP has no
// right to a segment or its memory is gone.
bool gather(Context& context, QueuePair& qp, SendWqe& wqe, std::uint32_t offset, std::byte* to, std::uint32_t length) {
	if (length == 0) return true;
	if (wqe.has(queues::send_inline)) return memory::guarded_copy(to, wqe.inline_data() + offset, length);
	for (Segment* segment = wqe.segments(); length; ++segment) {
		if (offset >= segment->length) {
			offset -= segment->length;
			continue;
		}
		const std::uint32_t n = std::min(length, segment->length - offset);
		const std::byte* from =
			context.keys.resolve(qp.send_cache, segment->lkey, segment->address + offset, n, memory::local_use, qp);
		if (!from || !memory::guarded_copy(to, from, n)) return false;
		to += n;
		length -= n;
		offset = 0;
	}
	return true;
}

// The WQE at sq_next cannot be sent: it completes with `status` once all WQEs before it have
// completed.
void fail_here(Context& context, QueuePair& qp, Status status) {
	qp.pending_error = status;
	retire_to(context, qp, qp.una);
}

// The part of a SEND opcode that gives the position in the message: FIRST 0, MIDDLE 1, LAST 2,
// ONLY 4. The opcode of a WRITE is 6 larger than that of a SEND at the same position (IBA 9.2).
constexpr std::uint8_t send_position(bool begins, bool ends) { return begins ? (ends ? 4 : 0) : (ends ? 2 : 1); }

Opcode message_opcode(QpType type, SendOpcode opcode, bool begins, bool ends) {
	const std::uint8_t transport =
		static_cast<std::uint8_t>(type == QpType::rc ? wire::Transport::rc : wire::Transport::uc);
	std::uint8_t position = send_position(begins, ends);
	switch (opcode) {
		case SendOpcode::send: break;
		case SendOpcode::send_imm: position += ends; break;
		case SendOpcode::send_invalidate:
			if (ends) position = begins ? 0x17 : 0x16;
			break;
		case SendOpcode::rdma_write: position += 6; break;
		case SendOpcode::rdma_write_imm: position += 6 + ends; break;
		default: break;
	}
	return Opcode(transport + position);
}

// whole: the WQE is finished, and the next one has its turn. executed: it is also acknowledged.
// stopped: the QP sends nothing more now, and continues with this WQE later.
enum class Sent { whole, executed, stopped };

// The outlet's ring is full: the QP waits for room. If the peer is stalled, a UC or UD QP does not
// wait, and its message is dropped.
Sent no_room(Context& context, QueuePair& qp, Outlet& outlet) {
	if (outlet.stalled && qp.type != QpType::rc) {
		++context.counters.datagrams_dropped_ring_full;
		qp.next_psn = qp.wqe(qp.sq_next).end_psn();  // the gap in PSNs shows a UC receiver the loss
		qp.message_offset = 0;
		return Sent::whole;
	}
	wait_for_room(context, qp, outlet);
	return Sent::stopped;
}

// Sends a SEND or RDMA WRITE of RC or UC, in runs of up to run_bytes_max bytes, one slot each.
Sent send_message(Context& context, QueuePair& qp, SendWqe& wqe) {
	Outlet& outlet = *qp.outlet;
	if (qp.message_offset == 0) {
		wqe.first_psn = qp.next_psn;
		wqe.packets = qp.packets_for(wqe.length);
	}
	const bool write = wqe.opcode == SendOpcode::rdma_write || wqe.opcode == SendOpcode::rdma_write_imm;
	bool ends, resumes = true;
	do {
		// On an outlet that can lose packets, an RC QP also stays below its window_end().
		std::uint32_t room = wire::Direction::run_bytes_max;
		if (!outlet.lossless && qp.type == QpType::rc) [[unlikely]] {
			const Psn end = window_end(qp);
			if (qp.next_psn >= end || (resumes && window_is_scarce(qp, end, wqe.length - qp.message_offset))) {
				qp.blocked |= blocked_window;
				return Sent::stopped;
			}
			room = std::min<std::uint64_t>(room, (end - qp.next_psn) << qp.mtu_shift);
		}
		const bool begins = qp.message_offset == 0;
		const std::uint32_t n = std::min(wqe.length - qp.message_offset, room);
		ends = qp.message_offset + n == wqe.length;
		const Opcode opcode = message_opcode(qp.type, wqe.opcode, begins, ends);
		const auto reserved = outlet.slots.reserve(n, write && begins ? sizeof(wire::Reth) : 0);
		if (!reserved.slot) [[unlikely]]
			return no_room(context, qp, outlet);
		outlet.stalled = false;
		if (!gather(context, qp, wqe, qp.message_offset, reserved.payload, n)) [[unlikely]] {
			fail_here(context, qp, Status::local_protection);
			return Sent::stopped;
		}
		Slot& slot = *reserved.slot;
		const std::uint8_t flags = (ends && wqe.has(queues::send_solicited) ? wire::slot_solicited : 0) |
			wire::slot_ack_requested | qp.mtu_code << wire::slot_mtu_shift;
		slot.set_bth(opcode, {qp.destination_qpn}, {static_cast<std::uint32_t>(qp.next_psn)}, flags);
		slot.payload_line = reserved.payload_line;
		slot.word = wqe.immediate;
		if (write && begins) slot.reth = {wqe.rdma.address, {wqe.rdma.rkey}, wqe.length};
		context.publish(outlet, &slot, n, {qp.qpn});
		qp.next_psn += qp.packets_for(n);
		qp.message_offset += n;
		resumes = false;
	} while (!ends);
	qp.message_offset = 0;
	return Sent::whole;
}

// Sends a READ or atomic: one request packet, which takes one PSN for each packet of the response
// (IBA 9.4.4, 9.7.3). On a link that can lose packets, a long READ takes several requests;
// `read_continues` is set until the last of them is sent.
Sent send_read_or_atomic(Context& context, QueuePair& qp, SendWqe& wqe) {
	Outlet& outlet = *qp.outlet;
	Recovery& recovery = qp.cold->recovery;
	if (qp.reads_max == 0) [[unlikely]] {  // max_rd_atomic is 0: none can ever be sent
		fail_here(context, qp, Status::local_qp_operation);
		return Sent::stopped;
	}
	// At most max_rd_atomic READs and atomics may be outstanding; the next response makes the QP
	// transmit again.
	if (qp.reads_in_flight >= qp.reads_max && !recovery.read_continues) return Sent::stopped;
	const bool read = wqe.opcode == SendOpcode::rdma_read;
	if (qp.message_offset == 0) {
		wqe.first_psn = qp.next_psn;
		wqe.packets = read ? qp.packets_for(wqe.length) : 1;
	}
	std::uint32_t length = read ? wqe.length - qp.message_offset : 0;
	if (!outlet.lossless) [[unlikely]] {
		if (read) length = read_span(qp, qp.message_offset, length);
		if (!window_allows_request(qp, read ? qp.packets_for(length) : 1)) {
			qp.blocked |= blocked_window;
			return Sent::stopped;
		}
	}
	const auto reserved = outlet.slots.reserve(0, read ? sizeof(wire::Reth) : sizeof(wire::AtomicEth));
	if (!reserved.slot) return no_room(context, qp, outlet);
	Slot& slot = *reserved.slot;
	const Opcode opcode = read                   ? Opcode::rc_read_request
		: wqe.opcode == SendOpcode::compare_swap ? Opcode::rc_compare_swap
												 : Opcode::rc_fetch_add;
	slot.set_bth(opcode, {qp.destination_qpn}, {static_cast<std::uint32_t>(qp.next_psn)},
		wire::slot_ack_requested | qp.mtu_code << wire::slot_mtu_shift);
	slot.payload_line = reserved.payload_line;
	if (read) slot.reth = {wqe.rdma.address + qp.message_offset, {wqe.rdma.rkey}, length};
	else if (wqe.opcode == SendOpcode::compare_swap)
		slot.atomic = {wqe.atomic.address, {wqe.atomic.rkey}, 0, wqe.atomic.swap, wqe.atomic.compare_or_add};
	else slot.atomic = {wqe.atomic.address, {wqe.atomic.rkey}, 0, wqe.atomic.compare_or_add, 0};
	context.publish(outlet, &slot, 0, {qp.qpn});
	if (!recovery.read_continues) ++qp.reads_in_flight;
	recovery.read_continues = read && qp.message_offset + length != wqe.length;
	if (recovery.read_continues) {
		qp.message_offset += length;
		qp.next_psn += qp.packets_for(length);
		return Sent::stopped;
	}
	qp.next_psn = wqe.end_psn();
	qp.message_offset = 0;
	return Sent::whole;
}

// Sends one datagram. The WQE completes with success even if no packet leaves, as datagrams may be
// lost anyway.
Sent send_datagram(Context& context, QueuePair& qp, SendWqe& wqe) {
	wqe.first_psn = qp.next_psn;
	wqe.packets = 1;
	// IBA 9.8.3: a message longer than the MTU sends no packet and raises no error.
	auto* outlet = static_cast<Outlet*>(const_cast<void*>(wqe.datagram.outlet));
	if (wqe.length > qp.path_mtu() || !outlet || outlet->closed) {
		++qp.next_psn;
		return Sent::whole;
	}
	const auto reserved = outlet->slots.reserve(wqe.length, sizeof(wire::Deth));
	if (!reserved.slot) [[unlikely]]
		return no_room(context, qp, *outlet);
	outlet->stalled = false;
	if (!gather(context, qp, wqe, 0, reserved.payload, wqe.length)) [[unlikely]] {
		fail_here(context, qp, Status::local_protection);
		return Sent::stopped;
	}
	Slot& slot = *reserved.slot;
	slot.set_bth(wqe.opcode == SendOpcode::send_imm ? Opcode::ud_send_only_imm : Opcode::ud_send_only,
		{wqe.datagram.qpn}, {static_cast<std::uint32_t>(qp.next_psn)},
		(wqe.has(queues::send_solicited) ? wire::slot_solicited : 0) | qp.mtu_code << wire::slot_mtu_shift);
	slot.payload_line = reserved.payload_line;
	slot.word = wqe.immediate;
	slot.deth = {wqe.datagram.q_key, qp.qpn << 8 | wqe.datagram.address_index};
	context.publish(*outlet, &slot, wqe.length, {qp.qpn});
	++qp.next_psn;
	return Sent::whole;
}

// Executes a bind or local invalidate on the key table when its turn in the send queue comes. A
// retransmission does not execute it again.
Sent run_local(Context& context, QueuePair& qp, SendWqe& wqe) {
	if (wqe.executed) return Sent::whole;
	wqe.first_psn = qp.next_psn;
	wqe.packets = 0;
	if (wqe.opcode == SendOpcode::local_invalidate) {
		if (!context.invalidate(wqe.immediate, qp.accessor())) {
			fail_here(context, qp, Status::local_qp_operation);
			return Sent::stopped;
		}
	} else if (!context.bind(binding_of(wqe, qp))) {
		fail_here(context, qp, Status::window_bind);
		return Sent::stopped;
	}
	wqe.executed = true;
	return Sent::whole;
}

// Executes the request at sq_next without the ring. Nothing: the request takes the ring.
std::optional<Sent> send_directly(Context& context, QueuePair& qp, SendWqe& wqe, std::uint32_t& bytes_left) {
	using Kind = DirectResult::Kind;
	if (wqe.reads() && qp.reads_max == 0) return std::nullopt;
	if (!ring_is_idle(qp)) {
		if (!should_await_ring(qp, wqe)) return std::nullopt;
		qp.blocked |= blocked_window;
		return Sent::stopped;
	}
	const DirectResult result = execute_direct(context, qp, wqe, bytes_left);
	switch (result.kind) {
		case Kind::done: return Sent::executed;
		case Kind::partly: wait_for_room(context, qp, *qp.outlet); return Sent::stopped;
		case Kind::failed: fail_here(context, qp, result.status); return Sent::stopped;
		default: return std::nullopt;
	}
}

// Sends the WQE or its rest. With IBV_SEND_FENCE it waits for the READs and atomics before it.
Sent send_wqe(Context& context, QueuePair& qp, SendWqe& wqe, std::uint32_t& direct_bytes_left) {
	if (wqe.has(queues::send_fence) && qp.reads_in_flight && qp.message_offset == 0) [[unlikely]]
		return Sent::stopped;
	if (qp.type == QpType::ud) return send_datagram(context, qp, wqe);
	if (may_go_direct(qp, wqe))
		if (const auto sent = send_directly(context, qp, wqe, direct_bytes_left)) return *sent;
	if (wqe.local()) [[unlikely]]
		return run_local(context, qp, wqe);
	if (wqe.reads()) return send_read_or_atomic(context, qp, wqe);
	return send_message(context, qp, wqe);
}

}  // namespace

void transmit(Context& context, QueuePair& qp) {
	if (qp.state != QpState::rts) [[unlikely]] {
		if (qp.state == QpState::error || qp.state == QpState::sqe) flush_send_queue(context, qp);
		if (qp.state != QpState::sqd) return;
	}
	// IBA 10.3.1: SQD finishes the requests that were begun and starts no other.
	const std::uint32_t head =
		qp.state == QpState::sqd ? qp.cold->sq_begun : qp.sq_head.load(std::memory_order_acquire);
	const Psn before = qp.next_psn;
	std::uint32_t direct_bytes_left = direct_bytes_max;
	while (qp.sq_next != head && !qp.blocked && qp.pending_error == Status::success) {
		SendWqe& wqe = qp.wqe(qp.sq_next);
		const Sent sent = send_wqe(context, qp, wqe, direct_bytes_left);
		if (sent == Sent::stopped) break;
		if (sent == Sent::executed) {
			retire_direct(context, qp);
			continue;
		}
		++qp.sq_next;
		// A UC or UD request completes when it is sent, a local operation of RC when all WQEs
		// before it have completed.
		if (qp.type != QpType::rc) retire_to(context, qp, qp.next_psn);
		else if (wqe.local()) [[unlikely]] retire_to(context, qp, qp.una);
	}
	if (qp.type == QpType::rc && qp.next_psn != before && !qp.outlet->lossless) note_sent(context, qp, before);
}

// The loop ends at the first QP that finds no room: with thousands of waiting QPs, trying each of
// them for every free slot would cost more than sending. That QP goes to the end of the list if it
// has sent anything, and otherwise keeps its place (wait_for_room).
bool resume_waiting(Context& context, Outlet& outlet) {
	const Nanoseconds since = outlet.full_since;
	const std::uint64_t steps = outlet.steps(), direct_steps = outlet.direct_steps;
	const Nanoseconds waited = context.fresh_now() - since;
	if (outlet.closed || waited > stalled_peer_timeout) outlet.stalled = true;
	const QueuePair* const last = outlet.waiting_last;
	// If the outlet is stalled, every QP has a turn: UD and UC QPs drop their messages, and RC QPs
	// wait again.
	outlet.resuming = !outlet.stalled;
	for (bool more = true; more && outlet.waiting_first;) {
		QueuePair* const qp = outlet.waiting_first;
		more = qp != last;
		outlet.waiting_first = qp->next_waiting;
		if (!outlet.waiting_first) outlet.waiting_last = nullptr;
		qp->blocked &= ~blocked_ring;
		qp->cold->waiting_on = nullptr;
		outlet.resumed_at = outlet.steps();
		transmit(context, *qp);
		if (qp->cold->waiting_on == &outlet && outlet.resuming) break;
	}
	outlet.resuming = false;
	const bool progress = outlet.steps() != steps, direct = outlet.direct_steps != direct_steps;
	// A direct operation waits for its next turn, not for room.
	if (!direct && (progress || !outlet.waiting_first)) context.counters.waited_for_room += waited;
	if (outlet.waiting_first) outlet.full_since = progress ? context.fresh_now() : since;
	return direct;
}

}  // namespace verbena::transport

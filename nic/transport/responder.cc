// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/responder.h"

#include <cstring>
#include <new>

#include "nic/memory/guarded_copy.h"
#include "nic/transport/answers.h"
#include "nic/transport/diagnose.h"
#include "nic/transport/direct.h"
#include "nic/transport/pending_responses.h"
#include "nic/transport/receive.h"
#include "nic/transport/recovery.h"
#include "nic/transport/responder_checks.h"

namespace verbena::transport {

using queues::Completed;
using queues::Completion;
using queues::ReceiveWqe;
using queues::Status;
using wire::Slot;

namespace {

void complete_receive(Context& context, QueuePair& qp, std::uint64_t wr_id, Status status, std::uint32_t length = 0,
	const Slot* slot = nullptr, Completed opcode = Completed::receive) {
	Completion completion{.wr_id = wr_id,
		.length = length,
		.qpn = qp.qpn,
		.source_qp = qp.destination_qpn,
		.status = status,
		.opcode = opcode};
	bool solicited = false;
	if (slot) {
		const wire::OpcodeFacts& facts = wire::facts(slot->opcode());
		if (facts.immediate || facts.invalidate) {
			completion.immediate = slot->word;
			completion.flags = facts.immediate ? queues::completion_with_imm : queues::completion_with_invalidate;
		}
		solicited = slot->solicited();
	}
	context.complete(*qp.recv_cq, completion, solicited);
}

// Sets qp.receive for a SEND that begins or a WRITE with immediate that ends. Returns false if no
// receive WQE is posted, or if there is no memory for the copy: the peer then tries again. If the
// message continues in later slots (`keeps`), the WQE is popped and copied, because other queue
// pairs may use a shared queue in between. After a UC message that was cut short, qp.receive is
// still set and serves the next message.
bool take_receive(Context& context, QueuePair& qp, bool keeps) {
	if (qp.receive) return true;
	ReceiveWqe* wqe = qp.receive_queue ? qp.receive_queue->front() : nullptr;
	if (!wqe) return false;
	if (keeps) {
		const std::uint32_t stride = qp.receive_queue->stride();
		if (!qp.cold->receive_copy) qp.cold->receive_copy.reset(new (std::nothrow) std::byte[stride]);
		if (!qp.cold->receive_copy) return false;
		std::memcpy(qp.cold->receive_copy.get(), wqe, stride);
		pop_receive(context, qp);
		wqe = reinterpret_cast<ReceiveWqe*>(qp.cold->receive_copy.get());
	}
	qp.receive = wqe;
	return true;
}

// Whether qp.receive is still the front of its queue, and not a copy.
bool in_queue(const QueuePair& qp) { return qp.receive == qp.receive_queue->front(); }

// Executes one slot of a SEND (IBA 9.4.1): scatters its payload, and completes the receive at the
// end of the message.
Verdict execute_send(
	Context& context, QueuePair& qp, const Slot& slot, const wire::OpcodeFacts& facts, const std::byte* payload) {
	if (facts.first) {
		if (!take_receive(context, qp, !facts.last)) return Verdict::rnr;
		qp.receive_offset = 0;
	}
	const bool to_pop = in_queue(qp);
	const std::uint64_t wr_id = qp.receive->wr_id;  // the entry may be reused after pop_receive()
	const Status status = scatter(context, qp, *qp.receive, qp.receive_offset, payload, slot.length);
	// IBA 9.8.2: UC drops a message that is too long for the receive, which serves the next one.
	if (status == Status::local_length && qp.type == QpType::uc) [[unlikely]] {
		if (to_pop) qp.receive = nullptr;
		return Verdict::drop;
	}
	qp.receive_offset += slot.length;
	if (status == Status::success && !facts.last) {
		qp.in_message = InMessage::send;
		return Verdict::accept;
	}
	if (status != Status::success && context.explain.refusal) [[unlikely]]
		context.receive_fault = diagnose_receive(context, qp, status);
	if (to_pop) pop_receive(context, qp);
	qp.receive = nullptr;
	qp.in_message = InMessage::none;
	if (status != Status::success) [[unlikely]] {
		complete_receive(context, qp, wr_id, status);
		return status == Status::local_length ? Verdict::nak_invalid_request : Verdict::nak_remote_operation;
	}
	if (facts.invalidate && !context.invalidate(slot.word, qp.accessor())) [[unlikely]] {
		complete_receive(context, qp, wr_id, Status::local_access);
		return Verdict::nak_remote_access;
	}
	complete_receive(context, qp, wr_id, Status::success, qp.receive_offset, &slot);
	return Verdict::accept;
}

// Executes one slot of an RDMA WRITE (IBA 9.4.3). The key is checked for the whole message at its
// first packet, and again for each slot, because it may be invalidated in between.
Verdict execute_write(
	Context& context, QueuePair& qp, const Slot& slot, const wire::OpcodeFacts& facts, const std::byte* payload) {
	ColdQueuePair& cold = *qp.cold;
	if (facts.first) {
		if (!(qp.remote_access & memory::remote_write)) return Verdict::nak_invalid_request;
		const std::uint32_t length = slot.reth.dma_length;
		if (length &&
			!context.keys.resolve(
				qp.receive_cache, slot.reth.rkey.value, slot.reth.address, length, memory::remote_write, qp))
			return Verdict::nak_remote_access;
		qp.write_address = slot.reth.address;
		qp.write_rkey = slot.reth.rkey.value;
		qp.receive_offset = 0;
		cold.write_length = length;
	}
	// The lengths of the packets must add up to the RETH's DMA length (IBA 9.7.4).
	const std::uint32_t end = qp.receive_offset + slot.length;
	if (facts.last ? end != cold.write_length : end >= cold.write_length) return Verdict::nak_invalid_request;
	if (facts.immediate && !take_receive(context, qp, false)) return Verdict::rnr;
	if (slot.length) {
		std::byte* to = context.keys.resolve(qp.receive_cache, qp.write_rkey, qp.write_address + qp.receive_offset,
			slot.length, memory::remote_write, qp);
		if (!to || !memory::guarded_copy(to, payload, slot.length)) {
			if (facts.immediate && in_queue(qp)) qp.receive = nullptr;  // leave the receive posted
			return Verdict::nak_remote_access;
		}
	}
	qp.receive_offset = end;
	qp.in_message = facts.last ? InMessage::none : InMessage::write;
	if (facts.immediate) {
		const std::uint64_t wr_id = qp.receive->wr_id;
		if (in_queue(qp)) pop_receive(context, qp);
		qp.receive = nullptr;
		complete_receive(
			context, qp, wr_id, Status::success, cold.write_length, &slot, Completed::receive_rdma_with_imm);
	}
	return Verdict::accept;
}

// Accepts a READ (IBA 9.4.4): checks its key now, and leaves its response for send_responses().
Verdict accept_read(Context& context, QueuePair& qp, const Slot& slot, Psn psn, bool duplicate) {
	if (!(qp.remote_access & memory::remote_read)) return Verdict::nak_invalid_request;
	if (!duplicate && responses_pending(*qp.cold, false) >= qp.cold->attributes.max_dest_rd_atomic)
		return Verdict::nak_invalid_request;
	const std::uint32_t length = slot.reth.dma_length;
	if (length &&
		!context.keys.resolve(
			qp.receive_cache, slot.reth.rkey.value, slot.reth.address, length, memory::remote_read, qp))
		return Verdict::nak_remote_access;
	const bool pushed = push_response(qp,
		{.psn = psn,
			.rkey = slot.reth.rkey.value,
			.address = slot.reth.address,
			.remaining = length,
			.msn = qp.msn + !duplicate,
			.duplicate = duplicate});
	return pushed ? Verdict::accept : duplicate ? Verdict::drop : Verdict::nak_invalid_request;
}

// Executes an atomic (IBA 9.4.5) and saves its result for duplicates.
Verdict execute_atomic(Context& context, QueuePair& qp, const Slot& slot, const wire::OpcodeFacts& facts, Psn psn) {
	ColdQueuePair& cold = *qp.cold;
	if (!(qp.remote_access & memory::remote_atomic)) return Verdict::nak_invalid_request;
	if (slot.atomic.address % 8) return Verdict::nak_invalid_request;
	if (responses_pending(cold, false) >= cold.attributes.max_dest_rd_atomic) return Verdict::nak_invalid_request;
	auto* at = reinterpret_cast<std::uint64_t*>(context.keys.resolve(
		qp.receive_cache, slot.atomic.rkey.value, slot.atomic.address, 8, memory::remote_atomic, qp));
	if (!at) return Verdict::nak_remote_access;
	if (reinterpret_cast<std::uintptr_t>(at) % 8) return Verdict::nak_invalid_request;
	// The region's address may be less aligned than the key's own addresses, hence both checks
	// above.
	std::uint64_t original = 0;
	const bool done = facts.operation == wire::Operation::compare_swap
		? memory::guarded_compare_swap(at, slot.atomic.compare, slot.atomic.swap_or_add, original)
		: memory::guarded_fetch_add(at, slot.atomic.swap_or_add, original);
	if (!done) return Verdict::nak_remote_access;
	cold.atomic_results[cold.atomic_next++ % cold.atomic_results.size()] = {psn, original};
	push_response(qp, {.psn = psn, .msn = qp.msn + 1, .result = original, .atomic = true});
	return Verdict::accept;
}

// IBA 9.7.4 and 9.7.5: a duplicate SEND or WRITE is acknowledged again, a duplicate READ is
// executed again, and a duplicate atomic is answered from its saved result.
void handle_duplicate(Context& context, QueuePair& qp, const Slot& slot, const wire::OpcodeFacts& facts, Psn psn) {
	++context.counters.duplicates;
	bool answered = false;
	switch (facts.operation) {
		case wire::Operation::send:
		case wire::Operation::write: return schedule_ack(context, qp);
		case wire::Operation::read_request:
			answered = psn + qp.packets_for(slot.reth.dma_length) <= qp.expected_psn &&
				accept_read(context, qp, slot, psn, true) == Verdict::accept;
			break;
		case wire::Operation::compare_swap:
		case wire::Operation::fetch_add:
			for (const AtomicResult& saved : qp.cold->atomic_results)
				answered |= saved.psn == psn &&
					push_response(
						qp, {.psn = psn, .msn = qp.msn, .result = saved.original, .atomic = true, .duplicate = true});
			break;
		default: return;
	}
	if (answered) context.schedule_responses(qp);
	// Same host: nothing is lost, so the requester did not retransmit; its PSNs start from another
	// number than ours. It has no timer, so an ACK has to show it the difference
	// (handle_unexpected_psn in completer.cc).
	else if (qp.outlet->lossless) schedule_ack(context, qp);
}

// IBA 9.8.2: a UC packet out of sequence ends the message in progress, and packets are dropped
// until the next FIRST or ONLY. Returns false if this packet is dropped.
bool follows_uc(QueuePair& qp, const wire::OpcodeFacts& facts, Psn psn) {
	if (facts.first) {
		qp.in_message = InMessage::none;
		return true;
	}
	if (psn != qp.expected_psn) qp.in_message = InMessage::discard;
	return qp.in_message == InMessage::send || qp.in_message == InMessage::write;
}

// The first request in RTR raises the event by which a server learns that its client is ready.
void establish(Context& context, QueuePair& qp) {
	if (qp.cold->communication_established) return;
	qp.cold->communication_established = true;
	publish_rights(context, qp);
	context.raise(AsyncEvent::communication_established, qp.cold->user);
}

// Whether the packet is new and the next in sequence (IBA 9.7.4; for UC, 9.8.2). Any other packet
// is answered or dropped here.
bool in_sequence(Context& context, QueuePair& qp, const Slot& slot, const wire::OpcodeFacts& facts, Psn psn) {
	if (qp.type == QpType::uc) {
		if (follows_uc(qp, facts, psn)) return true;
		qp.expected_psn = psn + qp.packets_for(slot.length);
		return false;
	}
	const ResponderView view{qp.expected_psn, qp.in_message, qp.gap_reported, qp.path_mtu()};
	const Verdict verdict = check_psn(view, psn);
	if (verdict == Verdict::accept) [[likely]]
		return true;
	if (verdict == Verdict::duplicate) handle_duplicate(context, qp, slot, facts, psn);
	// Same host: packets after a NAK are answered as well, with an ACK, because the requester has
	// no timer.
	else if (qp.outlet->lossless) verdict == Verdict::drop ? schedule_ack(context, qp) : refuse(context, qp, verdict);
	else if (nak_is_due(context, qp)) refuse(context, qp, Verdict::nak_sequence_error);
	return false;
}

struct Executed {
	Verdict verdict;
	std::uint32_t packets = 1;  // the PSNs that the request takes
	bool completed = false;     // an error completed the receive, so no event reports it
};

// Executes a request whose opcode and length were accepted.
Executed execute(Context& context, QueuePair& qp, const Slot& slot, const wire::OpcodeFacts& facts, Psn psn,
	const std::byte* payload) {
	switch (facts.operation) {
		case wire::Operation::send:
			return {execute_send(context, qp, slot, facts, payload), qp.packets_for(slot.length), true};
		case wire::Operation::write:
			return {execute_write(context, qp, slot, facts, payload), qp.packets_for(slot.length)};
		case wire::Operation::read_request:
			return {accept_read(context, qp, slot, psn, false), qp.packets_for(slot.reth.dma_length)};
		case wire::Operation::compare_swap:
		case wire::Operation::fetch_add: return {execute_atomic(context, qp, slot, facts, psn)};
		default: return {Verdict::drop};
	}
}

// Leaves the answer of an executed request for the end of the pass.
void schedule_answer(Context& context, QueuePair& qp, const wire::OpcodeFacts& facts) {
	if (qp.pending_answer == ack_none) {
		qp.messages_to_acknowledge = 0;
		qp.only_silent = true;
	}
	const bool silent = facts.operation == wire::Operation::write && !facts.immediate;
	if (facts.last && qp.messages_to_acknowledge < several_messages) ++qp.messages_to_acknowledge;
	qp.only_silent &= silent;
	context.silent_writes += silent && facts.last;
	if (facts.operation == wire::Operation::send || facts.operation == wire::Operation::write) {
		qp.pending_answer = ack_pending;  // replaces a NAK that was not sent yet and is out of date
	} else {
		qp.responses_in_slots = true;  // from now on an ACK must not overtake a response (IBA 9.5)
		qp.pending_answer &= ack_pending;
	}
	context.schedule_responses(qp);
}

}  // namespace

void handle_request(Context& context, QueuePair& qp, const Slot& slot, const std::byte* payload) {
	const wire::OpcodeFacts& facts = wire::facts(slot.opcode());
	++context.counters.requests_received;
	if (qp.state == QpState::rtr) [[unlikely]]
		establish(context, qp);
	const Psn psn = wire::nearest(qp.expected_psn, slot.psn());
	if (!in_sequence(context, qp, slot, facts, psn)) return;

	// The packet is new. From here on the checks run in the order of IBA 9.7.4.
	if (qp.gap_reported && !qp.outlet->lossless) note_gap_closed(context, qp);
	qp.gap_reported = false;
	const ResponderView view{qp.expected_psn, qp.in_message, false, qp.path_mtu()};
	Executed executed{check_opcode_sequence(view, facts)};
	if (executed.verdict == Verdict::accept)
		executed.verdict =
			check_length(view, {psn, facts, slot.length, qp.outlet->lossless, facts.reth ? slot.reth.dma_length : 0});
	if (executed.verdict == Verdict::accept) executed = execute(context, qp, slot, facts, psn, payload);
	// UC has no acknowledgements: the next packet is expected whether or not this one was accepted.
	if (qp.type == QpType::uc) qp.expected_psn = psn + executed.packets;
	if (executed.verdict != Verdict::accept) [[unlikely]] {
		explain_refusal(context, qp, slot, executed.verdict, executed.completed);
		return refuse(context, qp, executed.verdict, executed.completed);
	}
	if (qp.type == QpType::uc) return;

	qp.expected_psn += executed.packets;
	if (facts.last) ++qp.msn;
	schedule_answer(context, qp, facts);
}

}  // namespace verbena::transport

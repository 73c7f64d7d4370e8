// SPDX-License-Identifier: Apache-2.0
// The state that the queue pairs of one adapter share: key table, timers, clock, counters, and the
// output of a pass (responses to send, events to raise).
//
// Threads: under the engine's lock.
// Owns: the key table, the timers and the lists; not the queue pairs and outlets on the lists.
// Lifetime: one object for each adapter. Queue pairs, outlets and queues leave the lists before
//   they are destroyed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/time.h"
#include "base/timer_wheel.h"
#include "nic/memory/key_table.h"
#include "nic/memory/rights_table.h"
#include "nic/memory/shared_regions.h"
#include "nic/queues/completion_queue.h"
#include "nic/transport/observer.h"
#include "nic/transport/queue_pair.h"

namespace verbena::transport {

enum class AsyncEvent : std::uint8_t {
	qp_request_error,
	qp_access_error,
	communication_established,
	sq_drained,
	last_wqe_reached,
	qp_fatal,
	srq_limit_reached,
	cq_error,
};

struct RaisedEvent {
	AsyncEvent kind;
	void* object;  // the `user` of the QP, SRQ or CQ
};

// Same host: an answer for which there is no queue pair here. It refuses a request that none can
// receive, or it is the last answer of one that was destroyed or reset before the outlet had room.
// The requester has no timer, so without an answer it would wait for ever.
struct Refusal {
	Outlet* to;
	wire::Psn24 psn;  // the request's
	wire::Qpn source;  // the queue pair that sent the request and gets the answer
	wire::Qpn destination;  // the queue pair that the request names
	std::uint8_t syndrome;
};

// Events since the adapter was created.
struct Counters {
	std::uint64_t requests_received = 0;  // slots, each with one packet or a run
	std::uint64_t duplicates = 0;  // requests that were received before
	std::uint64_t out_of_sequence = 0;  // sequence error NAKs sent
	std::uint64_t rnr_naks_sent = 0;
	std::uint64_t rnr_naks_received = 0;
	std::uint64_t sequence_naks_received = 0;
	std::uint64_t timeouts = 0;  // waits that counted against retry_count
	std::uint64_t probes = 0;  // sent (recovery.h)
	std::uint64_t retransmissions = 0;  // rewinds after a loss or timeout, not packets
	std::uint64_t retries_exceeded = 0;  // send queues that failed with this status
	std::uint64_t rnr_retries_exceeded = 0;
	std::uint64_t datagrams_dropped_no_receive = 0;  // no receive WQE, or one that is too short
	std::uint64_t datagrams_dropped_q_key = 0;  // their Q_Key is not the queue pair's
	std::uint64_t datagrams_dropped_ring_full = 0;  // UC and UD messages to a stalled peer
	Nanoseconds waited_for_room = 0;  // by queue pairs, at outlets to which none could write
	// Packets of all types, and runs of them, by the reason for which the adapter drops them.
	std::uint64_t dropped_no_qp = 0;
	// The QP cannot receive in its state, or another process than its peer has sent the packet, or
	// the opcode is unknown.
	std::uint64_t dropped_wrong_state = 0;
	std::uint64_t passes_without_memory = 0;  // a step of these was left for a later pass
	std::uint64_t events_lost_no_memory = 0;  // asynchronous events
	std::uint64_t dropped_malformed = 0;  // an opcode of another transport service
	// NAKs and invalid responses from other hosts that would end a connection (doubt.h).
	std::uint64_t fatal_naks_received = 0;  // for requests in flight
	std::uint64_t naks_refuted = 0;  // an acknowledgement has contradicted these
	std::uint64_t stray_answers = 0;  // for packets that cannot be in flight: forged, or very old
};

// Why a queue pair has entered the error state.
enum class ErrorCause : std::uint8_t {
	request,  // a send request of its own failed
	refused,  // as a responder, it refused a request
	receive,  // a receive request failed
	program,  // ibv_modify_qp
	injected,  // a fault of `verbena run --faults`
};

// Takes the queue pair off a list of which `next` is the link; no effect if it is not on the list.
template <QueuePair* QueuePair::* next> void unlink(QueuePair*& first, QueuePair*& last, QueuePair& qp) {
	QueuePair* before = nullptr;
	for (QueuePair* at = first; at; before = at, at = at->*next) {
		if (at != &qp) continue;
		(before ? before->*next : first) = at->*next;
		if (last == at) last = before;
		return;
	}
}

struct Context;

// Gets each failure, to explain it to people; null functions are not called.
struct Explainer {
	// Before the oldest request of the send queue completes with `status`; `wqe` is null if there
	// is none.
	void (*failure)(Context&, const QueuePair&, const queues::SendWqe* wqe, queues::Status status) = nullptr;
	// A responder refuses a request.
	void (*refusal)(Context&, const QueuePair&, const wire::Slot&, const wire::Diagnosis&) = nullptr;
	// Before the requests of a queue pair are flushed.
	void (*flush)(Context&, const QueuePair&, ErrorCause, std::uint32_t sends, std::uint32_t receives) = nullptr;
};

// The state that the queue pairs of an adapter share.
struct Context {
	Context(std::uint64_t key_secret, Nanoseconds start) : keys(key_secret), timers(start), now(start) {
		constexpr std::size_t events_expected = 64;
		raised_events.reserve(events_expected);
		refusals.reserve(events_expected);
	}

	memory::KeyTable keys;
	memory::SharedRegions shared;  // registered memory that lies in files which a peer can map
	memory::RightsPublisher rights;  // lets peers on this host use the memory themselves
	std::vector<Outlet*> sharing_outlets;  // outlets that have shared payloads of those files
	TimerWheel timers;
	Nanoseconds now;  // the time at the start of the pass, or a later reading
	Counters counters;
	Observer* observer = nullptr;  // null: there is none
	Explainer explain;
	// The rights that the local memory of a READ or an atomic must have. With iWARP, to which a
	// response is a remote write, memory::remote_write is one of them.
	std::uint8_t read_sink_access = memory::local_use | memory::local_write;
	// Responder: why the receive that the request in progress has used up failed.
	wire::Diagnosis receive_fault;

	// The clock that fresh_now() reads. Null: `now` is always exact (the simulator).
	Nanoseconds (*clock)() = nullptr;
	// Called before a queue pair fails because its peer on another host has not answered; may be
	// null.
	void (*report_silence)(const QueuePair&) = nullptr;
	// Called after a peer on another host has contradicted a NAK in its name; may be null.
	void (*report_forgery)(const QueuePair&) = nullptr;
	// Reads the clock again, for a timer that starts now.
	Nanoseconds fresh_now() {
		if (clock) now = clock();
		return now;
	}

	Outlet* touched = nullptr;  // list of outlets written to since take_touched()
	// Queue pairs with responses to send, in order; finish_pass() empties the list.
	QueuePair* responding_first = nullptr;
	QueuePair* responding_last = nullptr;
	// The WRITEs without immediate that were executed here, which no completion shows the program.
	std::uint64_t silent_writes = 0;
	// The events of a pass, which the engine takes: completion queues that were armed and got a
	// completion, and asynchronous events.
	queues::CompletionQueue::List raised_queues;
	std::vector<RaisedEvent> raised_events;
	std::vector<Refusal> refusals;  // finish_pass() sends them

	// Pushes a completion and notes the event that it raises, if any. `solicited`: the message
	// requested an event.
	void complete(queues::CompletionQueue& cq, const queues::Completion& completion, bool solicited) {
		using queues::CompletionQueue;
		if (observer && completion.opcode >= queues::Completed::receive) [[unlikely]]
			observer->received(completion);
		const auto pushed = cq.push(completion, solicited || completion.status != queues::Status::success);
		if (pushed == CompletionQueue::Pushed::quietly) [[likely]]
			return;
		if (pushed == CompletionQueue::Pushed::raise_event) raised_queues.add(cq);
		else raise(AsyncEvent::cq_error, cq.user);
	}

	// Makes a reserved slot of the outlet visible, as SlotWriter::publish().
	[[gnu::always_inline]] void publish(Outlet& outlet, wire::Slot* slot, std::uint32_t length, wire::Qpn source = {}) {
		touch(outlet);
		outlet.slots.publish(slot, length, source);
		if (observer) [[unlikely]]
			observe_sent(outlet, *slot, length, source);
	}
	// The same for a payload that is shared, as SlotWriter::publish_shared().
	void publish_shared(Outlet& outlet, wire::Slot* slot, const wire::SharedPayload& shared, std::uint32_t length,
		std::uint32_t key, wire::Qpn source) {
		touch(outlet);
		outlet.slots.publish_shared(slot, shared, length, key, source);
		if (observer) [[unlikely]]
			observe_sent(outlet, *slot, length, source);
	}

	// The changes of the key table that withdraw a right. If the change succeeds, it also revokes
	// the payloads that were shared under this key and that the peer has not copied completely. The
	// results are those of KeyTable.
	bool deregister(std::uint32_t key) { return withdrawn(keys.deregister(key, now), key); }
	bool reregister(std::uint32_t key, const memory::KeyTable::Registration& r) {
		return withdrawn(keys.reregister(key, r), key);
	}
	bool deallocate_window(std::uint32_t key) { return withdrawn(keys.deallocate_window(key), key); }
	bool invalidate(std::uint32_t key, memory::Accessor accessor) {
		return withdrawn(keys.invalidate(key, accessor), key);
	}
	bool bind(const memory::KeyTable::Binding& binding) { return withdrawn(keys.bind(binding), binding.window_key); }

	// Adds the outlet to `sharing_outlets`, once. False: there is no memory for it, so the outlet
	// must not share payloads.
	bool note_sharing_outlet(Outlet& outlet) {
		return outlet.shares_payloads || (outlet.shares_payloads = append(sharing_outlets, &outlet));
	}

	// Adds the outlet to `touched`, once. At the end of a pass the engine wakes the peer of each
	// touched link and transmits each touched UDP path.
	void touch(Outlet& outlet) {
		if (outlet.touched) return;
		outlet.touched = true;
		outlet.next_touched = touched;
		touched = &outlet;
	}
	// Empties the list and returns its first outlet. The caller clears `touched` in each outlet.
	Outlet* take_touched() { return std::exchange(touched, nullptr); }

	// Without memory, and with more events in one pass than ever before, the event is lost.
	void raise(AsyncEvent kind, void* object) {
		if (!append(raised_events, RaisedEvent{kind, object})) ++counters.events_lost_no_memory;
	}

	// Queues a refusal, unless the last one in the queue is for the same requester: one refusal
	// answers all its requests.
	void refuse(const Refusal& refusal) {
		const auto same = [&](const Refusal& last) {
			return last.to == refusal.to && last.source == refusal.source && last.syndrome == refusal.syndrome;
		};
		if (refusals.empty() || !same(refusals.back()))
			append(refusals, refusal);  // without it, the requester's retries end
	}

	// Schedules send_responses() for `qp` at the end of the pass.
	void schedule_responses(QueuePair& qp) {
		if (qp.on_responding_list) return;
		qp.on_responding_list = true;
		qp.next_responding = nullptr;
		(responding_last ? responding_last->next_responding : responding_first) = &qp;
		responding_last = &qp;
	}

	// Takes `qp` off the list of queue pairs with responses to send; the mark stays.
	void unschedule_responses(QueuePair& qp) {
		unlink<&QueuePair::next_responding>(responding_first, responding_last, qp);
	}

private:
	// Not inlined, so that publish() stays small where there is no observer.
	[[gnu::cold, gnu::noinline]] void observe_sent(
		Outlet& outlet, const wire::Slot& slot, std::uint32_t length, wire::Qpn source) {
		observer->sent(outlet, slot, length, source.value);
	}

	// A pass must not fail half-way: an element that finds no memory is left out.
	template <class Element> static bool append(std::vector<Element>& to, const Element& element) noexcept {
		try {
			to.push_back(element);
			return true;
		} catch (const std::bad_alloc&) {
			return false;
		}
	}

	// Revokes the payloads shared under `key` and the right of direct operations, if the change was
	// made (`done`), and returns `done`. A peer may still be executing a direct operation.
	// Keys are compared without their tag, the low 8 bits: keys that differ only there belong to
	// the same region or window, and the change withdraws all of them.
	bool withdrawn(bool done, std::uint32_t key) {
		if (!done) return false;
		if (observer) observer->withdrawn();
		rights.withdraw_key(key);
		for (Outlet* outlet : sharing_outlets)
			outlet->slots.revoke([key](std::uint32_t shared_by, wire::Qpn) { return shared_by >> 8 == key >> 8; });
		return true;
	}
};

}  // namespace verbena::transport

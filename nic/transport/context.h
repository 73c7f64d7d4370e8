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
#include "nic/memory/shared_regions.h"
#include "nic/queues/completion_queue.h"
#include "nic/transport/queue_pair.h"

namespace verbena::transport {

enum class AsyncEvent : std::uint8_t {
	qp_request_error,
	qp_access_error,
	communication_established,
	sq_drained,
	last_wqe_reached,
	srq_limit_reached,
	cq_error,
};

struct RaisedEvent {
	AsyncEvent kind;
	void* object;  // the `user` of the QP, SRQ or CQ
};

// Same host: the answer to a request for a queue pair that cannot receive it. The sender has no
// timer, so silence would leave it waiting.
struct Refusal {
	Outlet* to;
	wire::Psn24 psn;  // the request's, as are both queue pair numbers
	wire::Qpn source;
	wire::Qpn destination;
};

// Events since the adapter was created.
struct Counters {
	std::uint64_t requests_received = 0;
	std::uint64_t duplicates = 0;
	std::uint64_t out_of_sequence = 0;  // sequence error NAKs sent
	std::uint64_t rnr_naks_sent = 0;
	std::uint64_t rnr_naks_received = 0;
	std::uint64_t sequence_naks_received = 0;
	std::uint64_t timeouts = 0;  // waits that counted against retry_count
	std::uint64_t probes = 0;
	std::uint64_t retransmissions = 0;
	std::uint64_t retries_exceeded = 0;
	std::uint64_t rnr_retries_exceeded = 0;
	std::uint64_t datagrams_dropped_no_receive = 0;  // no receive WQE, or one that is too short
	std::uint64_t datagrams_dropped_q_key = 0;
	std::uint64_t datagrams_dropped_ring_full = 0;  // UC and UD messages to a stalled peer
	std::uint64_t dropped_no_qp = 0;
	std::uint64_t dropped_wrong_state = 0;  // also packets that came by another path than the QP's
	std::uint64_t dropped_malformed = 0;  // an opcode of another transport service
};

struct Context {
	Context(std::uint64_t key_secret, Nanoseconds start) : keys(key_secret), timers(start), now(start) {}

	memory::KeyTable keys;
	memory::SharedRegions shared;  // registered memory that lies in files a peer can map
	std::vector<Outlet*> sharing_outlets;  // through them, payloads in such files were shared
	TimerWheel timers;
	Nanoseconds now;  // the time at the start of the pass, or a later reading
	Counters counters;

	// Null: `now` is exact (the simulator's clock).
	Nanoseconds (*clock)() = nullptr;
	// Reads the clock again, for a timer that starts now.
	Nanoseconds fresh_now() {
		if (clock) now = clock();
		return now;
	}

	Outlet* touched = nullptr;  // list of outlets written to since take_touched()
	// Queue pairs with responses to send, in order; finish_pass() empties the list.
	QueuePair* responding_first = nullptr;
	QueuePair* responding_last = nullptr;
	// Output of a pass, which the engine takes: queues whose armed event fired, and asynchronous
	// events.
	std::vector<queues::CompletionQueue*> raised_queues;
	std::vector<RaisedEvent> raised_events;
	std::vector<Refusal> refusals;

	// Pushes a completion and notes the event that it raises, if any.
	void complete(queues::CompletionQueue& cq, const queues::Completion& completion, bool solicited) {
		using queues::CompletionQueue;
		const auto pushed = cq.push(completion, solicited || completion.status != queues::Status::success);
		if (pushed == CompletionQueue::Pushed::quietly) [[likely]]
			return;
		if (pushed == CompletionQueue::Pushed::raise_event) raised_queues.push_back(&cq);
		else raised_events.push_back({AsyncEvent::cq_error, cq.user});
	}

	// Changes of the key table that withdraw a right. If one succeeds, payloads that were shared by
	// that key and that the peer has not finished copying are revoked. The results are those of
	// KeyTable.
	bool deregister(std::uint32_t key) { return withdrawn(keys.deregister(key), key); }
	bool reregister(std::uint32_t key, const memory::KeyTable::Registration& r) {
		return withdrawn(keys.reregister(key, r), key);
	}
	bool deallocate_window(std::uint32_t key) { return withdrawn(keys.deallocate_window(key), key); }
	bool invalidate(std::uint32_t key, memory::Accessor accessor) {
		return withdrawn(keys.invalidate(key, accessor), key);
	}
	bool bind(const memory::KeyTable::Binding& binding) { return withdrawn(keys.bind(binding), binding.window_key); }

	// Adds the outlet to `sharing_outlets`, once.
	void note_sharing_outlet(Outlet& outlet) {
		if (std::exchange(outlet.shares_payloads, true)) return;
		sharing_outlets.push_back(&outlet);
	}

	// Adds the outlet to `touched`, once. At the end of a pass the engine wakes the peer of each
	// touched link and transmits each touched UDP path.
	void touch(Outlet& outlet) {
		if (outlet.touched) return;
		outlet.touched = true;
		outlet.next_touched = touched;
		touched = &outlet;
	}
	Outlet* take_touched() { return std::exchange(touched, nullptr); }

	void raise(AsyncEvent kind, void* object) { raised_events.push_back({kind, object}); }

	// Queues a refusal. One is enough for consecutive requests of the same requester.
	void refuse(const Refusal& refusal) {
		if (refusals.empty() || refusals.back().to != refusal.to || refusals.back().source != refusal.source)
			refusals.push_back(refusal);
	}

	// Schedules send_responses() for `qp` at the end of the pass.
	void schedule_responses(QueuePair& qp) {
		if (qp.on_responding_list) return;
		qp.on_responding_list = true;
		qp.next_responding = nullptr;
		(responding_last ? responding_last->next_responding : responding_first) = &qp;
		responding_last = &qp;
	}

private:
	// Keys of one index differ only in the tag, and a change withdraws all of them.
	bool withdrawn(bool done, std::uint32_t key) {
		if (!done) return false;
		for (Outlet* outlet : sharing_outlets)
			outlet->slots.revoke([key](std::uint32_t shared_by, wire::Qpn) { return shared_by >> 8 == key >> 8; });
		return true;
	}
};

}  // namespace verbena::transport

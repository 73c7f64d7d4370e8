// What the queue pairs of one adapter share: the key table, the clock of this pass, timers, and what a pass leaves to
// be done (responses owed, events to raise). One object an adapter, used under the engine's lock.
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
	void* object;  // `user` of the QP, SRQ or CQ
};

// Same host: a request for a QP that is not there, about which its sender must hear.
struct Refusal {
	Outlet* to;
	wire::Psn24 psn;
	wire::Qpn source;
	wire::Qpn destination;
};

struct Counters {
	std::uint64_t requests_received = 0;
	std::uint64_t duplicates = 0;
	std::uint64_t out_of_sequence = 0;
	std::uint64_t rnr_naks_sent = 0;
	std::uint64_t rnr_naks_received = 0;
	std::uint64_t sequence_naks_received = 0;
	std::uint64_t timeouts = 0;
	std::uint64_t probes = 0;
	std::uint64_t retransmissions = 0;
	std::uint64_t retries_exceeded = 0;
	std::uint64_t rnr_retries_exceeded = 0;
	std::uint64_t datagrams_dropped_no_receive = 0;
	std::uint64_t datagrams_dropped_q_key = 0;
	std::uint64_t datagrams_dropped_ring_full = 0;
	std::uint64_t dropped_no_qp = 0;
	std::uint64_t dropped_wrong_state = 0;
	std::uint64_t dropped_malformed = 0;
};

struct Context {
	Context(std::uint64_t key_secret, Nanoseconds start) : keys(key_secret), timers(start), now(start) {}

	memory::KeyTable keys;
	memory::SharedRegions shared;  // of what is registered
	std::vector<Outlet*> lenders;  // outlets by which some of it was lent
	TimerWheel timers;
	Nanoseconds now;
	Counters counters;

	// Reads the clock anew, for a timer that starts now. Null: `now` is exact as it is (the simulator's clock).
	Nanoseconds (*clock)() = nullptr;
	Nanoseconds fresh_now() {
		if (clock) now = clock();
		return now;
	}

	Outlet* touched = nullptr;  // outlets to which something was written since take_touched()
	QueuePair* owing_first = nullptr;
	QueuePair* owing_last = nullptr;
	std::vector<queues::CompletionQueue*> raised_queues;
	std::vector<RaisedEvent> raised_events;
	std::vector<Refusal> refusals;

	void complete(queues::CompletionQueue& cq, const queues::Completion& completion, bool solicited) {
		using queues::CompletionQueue;
		const auto pushed = cq.push(completion, solicited || completion.status != queues::Status::success);
		if (pushed == CompletionQueue::Pushed::quietly) [[likely]]
			return;
		if (pushed == CompletionQueue::Pushed::raise_event) raised_queues.push_back(&cq);
		else raised_events.push_back({AsyncEvent::cq_error, cq.user});
	}

	// Changes of the key table that take a right away: what was lent by the key must not be used any more. A change
	// that is refused takes nothing away, whoever asked for it.
	bool deregister(std::uint32_t key) { return withdrawn(keys.deregister(key), key); }
	bool reregister(std::uint32_t key, const memory::KeyTable::Registration& r) {
		return withdrawn(keys.reregister(key, r), key);
	}
	bool deallocate_window(std::uint32_t key) { return withdrawn(keys.deallocate_window(key), key); }
	bool invalidate(std::uint32_t key, memory::Accessor accessor) {
		return withdrawn(keys.invalidate(key, accessor), key);
	}
	bool bind(const memory::KeyTable::Binding& binding) { return withdrawn(keys.bind(binding), binding.window_key); }

	void note_lender(Outlet& outlet) {
		if (std::exchange(outlet.lends, true)) return;
		lenders.push_back(&outlet);
	}

	void touch(Outlet& outlet) {
		if (outlet.touched) return;
		outlet.touched = true;
		outlet.next_touched = touched;
		touched = &outlet;
	}
	Outlet* take_touched() { return std::exchange(touched, nullptr); }

	void raise(AsyncEvent kind, void* object) { raised_events.push_back({kind, object}); }

	// One is enough for all that a requester has sent meanwhile.
	void refuse(const Refusal& refusal) {
		if (refusals.empty() || refusals.back().to != refusal.to || refusals.back().source != refusal.source)
			refusals.push_back(refusal);
	}

	// The responder of `qp` has something to send at the end of the pass.
	void owe(QueuePair& qp) {
		if (qp.on_owing_list) return;
		qp.on_owing_list = true;
		qp.next_owing = nullptr;
		(owing_last ? owing_last->next_owing : owing_first) = &qp;
		owing_last = &qp;
	}

private:
	bool withdrawn(bool done, std::uint32_t key) {
		if (!done) return false;
		for (Outlet* outlet : lenders)
			outlet->slots.revoke([key](std::uint32_t lent_by, wire::Qpn) { return lent_by >> 8 == key >> 8; });
		return true;
	}
};

}  // namespace verbena::transport

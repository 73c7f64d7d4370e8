// SPDX-License-Identifier: Apache-2.0
// The queue pairs with newly posted requests, which the holder of the engine's lock transmits. A
// thread that posts while another holds the lock rings; the holder takes.
//
// Threads: any may ring; one at a time takes, under the engine's lock.
// Invariants: a request that is in its send queue before ring() is seen by a visit of take() that
//   follows. ring() and take() both exchange the queue pair's flag, which is a full fence. If
//   take() only stored the flag, its look at the send queue could come before that store. A poster
//   that finds the flag of an earlier request then leaves it to a visit that has already looked.
// Lifetime: a queue pair must not be destroyed while it is on the list (QueuePair::doorbell).
#pragma once

#include <atomic>

#include "nic/transport/queue_pair.h"

namespace verbena::engine {

class Doorbells {
public:
	bool rung() const { return first_.load(std::memory_order_relaxed) != nullptr; }

	// `qp` has newly posted requests. The caller then tries the lock once more.
	void ring(transport::QueuePair& qp) {
		if (qp.doorbell.exchange(true, std::memory_order_acq_rel)) return;
		transport::QueuePair*& next = qp.cold->next_doorbell;
		next = first_.load(std::memory_order_relaxed);
		while (!first_.compare_exchange_weak(next, &qp, std::memory_order_seq_cst)) {}
	}

	// Empties the list and calls visit(QueuePair&) for each that was on it.
	template <class Visit> void take(Visit&& visit) {
		for (transport::QueuePair* qp = first_.exchange(nullptr, std::memory_order_acquire); qp;) {
			transport::QueuePair* const next = qp->cold->next_doorbell;
			qp->doorbell.exchange(false, std::memory_order_acq_rel);
			visit(*qp);
			qp = next;
		}
	}

	// In the child of a fork, where no other thread rings.
	void forget() { first_.store(nullptr, std::memory_order_relaxed); }

private:
	std::atomic<transport::QueuePair*> first_{nullptr};
};

}  // namespace verbena::engine

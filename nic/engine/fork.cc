// SPDX-License-Identifier: Apache-2.0
// An engine that a fork copies: the parent holds it meanwhile, and the child gives it up.
#include <new>
#include <sched.h>

#include "nic/engine/engine.h"
#include "nic/engine/progress.h"
#include "nic/transport/in_flight.h"

namespace verbena::engine {

using transport::QueuePair;

bool Engine::hold_for_fork() {
	// A signal handler that forks may have interrupted the holder, which then never releases the
	// lock: the child takes the engine as it is.
	for (int patience = 0; patience < 10'000; ++patience) {
		if (lock_.try_lock()) return true;
		sched_yield();
	}
	return false;
}

void Engine::abandon_after_fork() {
	new (&lock_) EngineLock;
	abandoned_ = true;
	// The descriptors to which the events would be written are the parent's, too.
	events_ = {[](queues::CompletionQueue&) {}, [](const transport::RaisedEvent&) {},
		[](cm::ConnectionManager&, Nanoseconds, const cm::Event&) {}, [](std::span<const LinkChange>) { return true; },
		[](Engine&) {}};
	counters_watched_.store(false, std::memory_order_relaxed);
	doorbells_.forget();
	adapter_.context().rights.attach(nullptr);  // the table is the parent's
	adapter_.context().touched = nullptr;
	adapter_.context().refusals.clear();
	adapter_.context().sharing_outlets.clear();
	adapter_.context().explain = {};  // the flush is the fork's, and no failure
	adapter_.context().observer = nullptr;
	adapter_.queue_pairs().for_each([&](QueuePair& qp) {
		// Other threads of the parent may have held these; they do not exist here and cannot
		// release them.
		new (&qp.sq_lock) SpinLock;
		new (&qp.send_cq->lock) SpinLock;
		new (&qp.recv_cq->lock) SpinLock;
		if (qp.receive_queue) new (&qp.receive_queue->lock) SpinLock;
		qp.doorbell.store(false, std::memory_order_relaxed);
		qp.outlet = nullptr;
		qp.blocked = 0;
		qp.cold->waiting_on = nullptr;
		if (qp.state != transport::QpState::reset)
			transport::enter_error(adapter_.context(), qp, transport::ErrorCause::program);
	});
	progress_->abandon_after_fork();
	remotes_.abandon_after_fork();
	neighbours_.abandon_after_fork();
	addresses_.clear();
	epoll_.abandon_after_fork();
	own_.abandon_after_fork();
}

}  // namespace verbena::engine

// SPDX-License-Identifier: Apache-2.0
// QueuePairDrain: the queue pairs of destroyed channels that share a receive queue. A queue pair
// that is destroyed too early takes along the receives whose completions have not been polled, and
// the shared queue has that many buffers less for ever.
//
// Each queue pair is in IBV_QPS_ERR. IBV_EVENT_QP_LAST_WQE_REACHED says that it takes no further
// receive. Afterwards the completion queue has the completions of all that it has taken, so the
// queue pair is destroyed when that queue was empty once, or has given as many completions as it
// has entries. IBA 10.3.1 asks for these steps, as quoted in the kernel's
// drivers/infiniband/ulp/ipoib/ipoib.h. A device that reports no event within `event_wait` is
// taken for one that never does, as Soft-RoCE before Linux 6.5.
//
// It reads all asynchronous events of the context; the others have no meaning here.
//
// Threads: the loop's thread. Nothing blocks, and a call destroys few queue pairs.
// Owns: the queue pairs, and the memory that their requests in flight use.
// Lifetime: destroyed before the completion queue, the shared receive queue and the pools, and with
//   it the queue pairs that still drain.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "lib/async/job.h"
#include "lib/channel/send_queue.h"

namespace verbena::channel {

class QueuePairDrain final : private async::Timer {
public:
	static constexpr Nanoseconds event_wait = 200'000'000;

	// `cq`: the completion queue of all queue pairs. No other object reads events of its context.
	QueuePairDrain(async::Loop& loop, ibv_cq* cq);
	~QueuePairDrain();

	bool empty() const { return draining_.empty(); }
	std::size_t size() const { return draining_.size(); }
	bool contains(std::uint32_t qpn) const { return draining_.contains(qpn); }
	// Takes over a queue pair in IBV_QPS_ERR. `granted`: the receive buffers that back credits of
	// its peer; polled() returns their number once the queue pair is destroyed.
	void add(EndedQueuePair ended, std::uint32_t granted);
	// A poll has taken this number of completions off the completion queue; 0: it was empty. The
	// caller has handled them. Destroys queue pairs that have drained. Returns the number of
	// receive buffers that were granted to their peers.
	std::uint32_t polled(std::size_t completions);
	// Destroys all queue pairs now.
	void abandon();

private:
	struct Draining {
		EndedQueuePair ended;
		std::uint32_t granted = 0;
		std::uint64_t number = 0;  // in the order of add()
		bool last_reached = false;
	};
	struct Wait {
		std::uint32_t qpn = 0;
		std::uint64_t number = 0;
		Nanoseconds deadline = 0;
	};
	struct Reached {
		std::uint32_t qpn = 0;
		std::uint64_t completions = 0;  // polled so far
	};

	async::Task<void> watch();
	void read_events();
	void handle_last_reached(std::uint32_t qpn);
	void expire() override;

	async::Loop& loop_;
	ibv_cq* cq_;
	async::Descriptor events_;  // the context's, which closes it
	std::unordered_map<std::uint32_t, Draining> draining_;  // by queue pair number
	// Queue pairs of living channels that have reported the event, because a request failed.
	std::unordered_set<std::uint32_t> reached_early_;
	std::deque<Wait> waits_;  // for events, oldest first
	std::deque<Reached> reached_;  // those of `draining_` that wait for the completion queue
	std::uint64_t completions_ = 0, added_ = 0;
	async::Job watcher_;
};

}  // namespace verbena::channel

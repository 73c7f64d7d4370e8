// SPDX-License-Identifier: Apache-2.0
// The measured loop of the receiver of many queue pairs (fan_in.h). As Receiver (receiver.h), it
// checks each message, posts the buffers of one poll again as one list, and sends credits; it also
// checks that each message came through the queue pair of its sequence number.
//
// Reordering is counted for each queue pair, because messages of different ones have no order. Nor
// do the completions of a shared receive queue: any buffer that is posted may complete next.
//
// fan_in_receiver_loop.h has the definitions, for ends other than a FanInReceiverEndpoint.
//
// Threads: one thread; `published` may be read by others.
// Lifetime: the end must outlive it.
// Errors: Failure, as Receiver.
#pragma once

#include <atomic>
#include <vector>

#include "bench/rcud/arrivals.h"
#include "bench/rcud/fan_in_endpoint.h"
#include "bench/rcud/stamps.h"

namespace verbena::rcud {

template <FanInEnd E> class FanInReceiverOn {
public:
	// `delay_ns` and `published` as in Receiver.
	FanInReceiverOn(E& end, std::uint32_t delay_ns, std::atomic<std::uint64_t>* published = nullptr);

	// Posts all receives. Call it once, before a sender may send.
	void post_receives();

	// As Receiver::run().
	Delivery run(const Run& run, const Watcher& watcher);

private:
	// The messages of one sender, and the credits for it.
	struct Lane {
		Account account;
		std::uint64_t lost = 0;  // RC: arrived, but count as none of its messages
		std::uint64_t credited = 0;
		std::uint64_t total = 0;
	};
	// A queue pair that sends credits, and the credits that are under way on it.
	struct CreditQueue {
		std::uint64_t posted = 0, completed = 0;
	};

	void accept(const ibv_wc& completion, const Run& run);
	void refuse(const ibv_wc& completion);
	void digest(const ibv_wc* completions, int count, const Run& run);
	void take_credit_completion(const ibv_wc& completion);
	void give_credits(const Run& run);
	bool send_credit(const Run& run, std::uint32_t sender, std::uint64_t count);
	std::uint64_t consumed(const Lane& lane) const {
		return end_.is_ud() ? lane.account.next() : lane.account.delivered + lane.lost;
	}
	bool all_credited() const;

	E& end_;
	Clock<E> clock_;
	const std::uint32_t delay_ns_;
	const bool credits_;
	std::atomic<std::uint64_t>* const published_;
	Pattern pattern_;
	std::vector<ibv_recv_wr> requests_;  // one for each buffer, made once
	std::vector<ibv_sge> pieces_;
	std::vector<char> is_posted_;  // for each buffer
	std::vector<Lane> lanes_;
	std::vector<CreditQueue> credit_queues_;
	std::vector<std::uint64_t> next_of_;  // for each queue pair: one past its last sequence number
	std::uint64_t delivered_ = 0, reordered_ = 0, misplaced_ = 0, qps_used_ = 0;
};

extern template class FanInReceiverOn<FanInReceiverEndpoint>;
using FanInReceiver = FanInReceiverOn<FanInReceiverEndpoint>;

}  // namespace verbena::rcud

// The receiver of many queue pairs (fan_in.h), and its measured loop. As Receiver (receiver.h), it
// checks the stamp of each message, posts the buffers of one poll again as one list, and sends
// credits; it also checks that each message came through the queue pair of its sequence number.
//
// Reordering is counted for each queue pair, because messages of different ones have no order.
//
// Threads: one thread; `published` may be read by others.
// Lifetime: the device must outlive it.
// Errors: Failure; one about a queue pair says which of how many it is.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "bench/rcud/arrivals.h"
#include "bench/rcud/endpoint.h"
#include "bench/rcud/fan_in.h"
#include "bench/rcud/stamps.h"

namespace verbena::rcud {

using SharedReceiveQueue = std::unique_ptr<ibv_srq, lib::Destroyer<ibv_destroy_srq>>;

// Makes the i-th of `all` queue pairs; a Failure says which one could not be made.
lib::QueuePair make_one_of(const lib::OpenDevice& device, const Cell& cell, ibv_cq* cq,
	const lib::QueuePairOptions& options, std::uint32_t psn, std::uint32_t i);
// Connects an RC queue pair that make_one_of() made.
void connect_one(ibv_qp* qp, const lib::OpenDevice& device, const Cell& cell, const FanInAddress& remote,
	std::uint32_t remote_qpn, std::uint32_t psn, std::uint32_t i);
// The address handle that leads to the other end.
lib::AddressHandle handle_to(const lib::OpenDevice& device, const FanInAddress& remote);

class FanInReceiver {
public:
	FanInReceiver(const lib::OpenDevice& device, const Cell& cell, const Shape& shape, std::uint32_t inline_wanted,
		std::uint32_t delay_ns, std::atomic<std::uint64_t>* published);

	FanInAddress address() const;
	// One for each queue pair of RC, a single one for UD.
	std::vector<std::uint32_t> qpns() const;
	// Connects to all senders' queue pairs, and posts the receives.
	void connect(const FanInAddress& remote, std::vector<std::uint32_t> remote_qpns);

	// As Receiver::run().
	Delivery run(const Run& run, const Watcher& watcher);

private:
	// The messages of one sender, and the credits for it.
	struct Lane {
		Account account;
		std::uint64_t credited = 0;
		std::uint64_t total = 0;
	};
	// A queue pair that sends credits, and the credits that are under way on it.
	struct CreditQueue {
		std::uint64_t posted = 0, completed = 0;
	};

	bool is_ud() const { return cell_.mode != Mode::rc; }
	std::byte* receive_at(std::uint64_t i) const { return memory_.data() + i * stride_ + (is_ud() ? 64 : 0); }
	std::uint32_t grh_bytes() const { return is_ud() ? 40 : 0; }
	void post(ibv_recv_wr* list);
	void accept(const ibv_wc& completion, const Run& run);
	void digest(const ibv_wc* completions, int count, const Run& run);
	void take_credit_completion(std::uint64_t id);
	void give_credits(const Run& run);
	bool send_credit(const Run& run, std::uint32_t sender, std::uint64_t count);
	std::uint64_t consumed(const Lane& lane) const { return is_ud() ? lane.account.next() : lane.account.delivered; }
	bool all_credited() const;

	const lib::OpenDevice& device_;
	const Cell cell_;
	const Shape shape_;
	const std::uint32_t delay_ns_;
	const bool credits_;
	std::atomic<std::uint64_t>* const published_;
	const std::uint32_t psn_ = lib::random_psn();
	const std::uint32_t stride_;  // from one receive buffer to the next
	Buffer memory_;  // the receives, and the words that credits are sent from
	std::uint64_t* words_;

	lib::CompletionQueue cq_;
	lib::MemoryRegion region_;
	SharedReceiveQueue shared_;
	lib::AddressHandle ah_;
	std::vector<lib::QueuePair> qps_;
	FanInAddress remote_;
	std::vector<std::uint32_t> remote_qpns_;

	std::vector<ibv_recv_wr> requests_;
	std::vector<ibv_sge> pieces_;
	std::vector<Lane> lanes_;
	std::vector<CreditQueue> credit_queues_;
	std::vector<std::uint64_t> next_of_;  // for each queue pair: one past its last sequence number
	std::uint64_t delivered_ = 0, reordered_ = 0, misplaced_ = 0, qps_used_ = 0;
};

}  // namespace verbena::rcud

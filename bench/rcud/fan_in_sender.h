// One sender of many queue pairs (fan_in.h), and its measured loop, which posts one message to each
// queue pair in turn:
//
//     while not done:
//       post while  posted - completed < window   (by completions of all its queue pairs)
//              and  posted - consumed < window    (by credits, if the window follows them)
//              and  the queue pair whose turn it is has room
//       poll at most 16 completions; read the credits; take the latency of sampled messages
//
// Every message asks for a completion. Credits are those of sender.h; they arrive at the sender's
// first queue pair.
//
// Threads: one thread makes and connects all senders of a process; then each runs in its own.
// Lifetime: the device must outlive it.
// Errors: as those of Sender.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bench/rcud/endpoint.h"
#include "bench/rcud/fan_in.h"
#include "bench/rcud/sender.h"

namespace verbena::rcud {

class FanInSender {
public:
	// `words`: a line of memory that the receiver's credits are written to (RC).
	FanInSender(const lib::OpenDevice& device, const Cell& cell, const Shape& shape, std::uint32_t inline_wanted,
		std::uint32_t number, std::uint64_t* words, std::uint32_t psn);

	// The number of this sender's queue pair i: the cell's queue pair i * senders + number.
	std::uint32_t qpn(std::uint32_t i) const { return qps_[i]->qp_num; }
	// `remote_qpns`: the receiver's, of the whole cell. Posts the receives for UD credits.
	void connect(const FanInAddress& remote, std::span<const std::uint32_t> remote_qpns);

	// As Sender::run(), for this sender's share of the run.
	void run(const Run& run, const Watcher& watcher, Sent& sent);

private:
	bool is_ud() const { return cell_.mode != Mode::rc; }
	void post_credit_receive(std::uint64_t i);
	void post(const Run& run, std::uint64_t message);
	void digest(const ibv_wc& completion, Sent& sent);
	void read_credit_word(Sent& sent);
	void take_samples_below(std::uint64_t known, Histogram& latency);

	const lib::OpenDevice& device_;
	const Cell cell_;
	const Shape shape_;
	const std::uint32_t number_, own_;  // this sender; its queue pairs
	const std::uint32_t room_;          // messages in flight on one queue pair
	const std::uint32_t credit_receives_;
	const std::uint32_t psn_;
	const bool credits_;
	Buffer memory_;
	std::atomic<std::uint64_t>* credit_word_;

	lib::CompletionQueue cq_;
	lib::MemoryRegion region_;
	lib::AddressHandle ah_;
	std::vector<lib::QueuePair> qps_;
	std::vector<std::uint32_t> remote_qpns_;
	unsigned flags_ = IBV_SEND_SIGNALED;
	FanInAddress remote_;

	std::vector<std::uint32_t> in_flight_, slot_;  // one for each queue pair
	std::uint16_t run_ = 0;
	std::uint32_t turn_ = 0;
	std::vector<std::uint64_t> sampled_at_;  // when sample i was posted: at i modulo its length
	std::uint64_t samples_taken_ = 0, samples_begun_ = 0;
};

// The senders of a process.
class FanInSenders {
public:
	FanInSenders(const lib::OpenDevice& device, const Cell& cell, const Shape& shape, std::uint32_t inline_wanted);

	FanInAddress address() const;
	std::vector<std::uint32_t> qpns() const;
	void connect(const FanInAddress& remote, std::span<const std::uint32_t> remote_qpns);

	// Runs all senders, the first one in the calling thread, which alone calls the watcher. `sent`
	// is the sum of them all, and is up to date after a Failure too.
	void run(const Run& run, const Watcher& watcher, Sent& sent);

private:
	const lib::OpenDevice& device_;
	const Cell cell_;
	const std::uint32_t psn_ = lib::random_psn();
	Buffer words_;
	lib::MemoryRegion region_;
	std::vector<std::unique_ptr<FanInSender>> senders_;
};

}  // namespace verbena::rcud

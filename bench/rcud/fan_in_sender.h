// SPDX-License-Identifier: Apache-2.0
// The measured loop of one sender of many queue pairs (fan_in.h), which posts one message to each
// queue pair in turn:
//
//     while not done:
//       post while  posted - completed < window   (by completions of all its queue pairs)
//              and  posted - consumed < window    (by credits, if the window follows them)
//              and  the queue pair whose turn it is has room
//       poll at most 16 completions; read the credits; take the latency of sampled messages
//
// Every message asks for a completion, which is compared with the one that must come next on its
// queue pair (completions.h). Credits are those of sender.h; they arrive at the sender's first
// queue pair. The clock may jump (patience.h).
//
// fan_in_sender_loop.h has the definitions, for ends other than a FanInSenderEndpoint.
//
// Threads: one thread for each FanInSender; FanInSenders is made and used by one.
// Lifetime: the end must outlive its FanInSender, the device must outlive FanInSenders.
// Errors: as those of Sender.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "bench/rcud/fan_in_endpoint.h"
#include "bench/rcud/sender.h"

namespace verbena::rcud {

template <FanInEnd E> class FanInSenderOn {
public:
	explicit FanInSenderOn(E& end);

	// UD: posts the receives for credits. Call it once, before the first run.
	void post_receives();

	// As Sender::run(), for this sender's share of the run.
	void run(const Run& run, const Watcher& watcher, Sent& sent);

private:
	// One queue pair in this run.
	struct Lane {
		std::uint64_t next = 0;  // the wr_id that completes next
		std::uint32_t in_flight = 0;
		std::uint32_t slot = 0;  // the next one to send from
	};

	void post_receive(std::uint32_t i);
	void post(std::uint64_t message);
	void digest(const ibv_wc& completion, Sent& sent);
	void take_credit(const ibv_wc& completion, Sent& sent);
	void read_credit_word(Sent& sent);
	void take_samples_below(std::uint64_t known, Histogram& latency);

	E& end_;
	Clock<E> clock_;
	const bool credits_;
	const unsigned flags_;
	Pattern pattern_;
	std::vector<Lane> lanes_;
	std::uint16_t run_ = 0;
	std::uint32_t turn_ = 0;
	std::uint32_t next_receive_ = 0;  // the buffer of the next UD credit
	std::vector<std::uint64_t> sampled_at_;  // when sample i was posted: at i modulo its length
	std::uint64_t samples_taken_ = 0, samples_begun_ = 0;
};

extern template class FanInSenderOn<FanInSenderEndpoint>;
using FanInSender = FanInSenderOn<FanInSenderEndpoint>;

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
	std::deque<FanInSenderEndpoint> ends_;
	std::vector<FanInSender> senders_;
};

}  // namespace verbena::rcud

// SPDX-License-Identifier: Apache-2.0
// The measured loop of the sender: posts messages (SEND, WRITE or READ requests) as the window
// allows; after a READ it also checks the bytes that were read.
//
//     while not done:
//       post while  posted - completed < window  (by completions of its own requests)
//              and  posted - consumed  < limit   (by credits; the limit is below)
//       poll at most 16 completions; read the credits; take the latency of sampled messages
//
// Apart from verbs calls and its watcher, the loop allocates nothing and makes no system call. It
// reads the clock for sampled messages, and while it makes no progress.
//
// A credit is the number of messages that the receiver has consumed in this run (receiver.h). Over
// RC the receiver writes it, with the run's number, into the endpoint's `words[0]` by RDMA WRITE.
// Over UD it sends an empty datagram whose immediate holds the low bits of both (traffic.h). The
// number is cumulative, so a lost credit is made up for by the next one. WRITEs always have
// credits; their limit is the length of the receiver's ring. SENDs have credits with
// WindowMode::credit; their limit is the window. READs, and SENDs with WindowMode::local, have no
// credits and no limit.
//
// Each completion is compared with the one that must come next (completions.h), credits above the
// number posted are ignored, and the clock may jump (patience.h).
//
// sender_loop.h has the definitions, for ends other than an Endpoint.
//
// Threads: one thread.
// Lifetime: the endpoint must be connected before the Sender is made, and must outlive it.
#pragma once

#include <vector>

#include "base/histogram.h"
#include "bench/rcud/endpoint.h"
#include "bench/rcud/patience.h"
#include "bench/rcud/pattern.h"
#include "bench/rcud/traffic.h"

namespace verbena::rcud {

// The sender's counts of one run, in messages.
struct Sent {
	std::uint64_t posted = 0;
	std::uint64_t completed = 0;  // by completions of its own requests
	std::uint64_t consumed = 0;  // by the receiver, according to its credits
	std::uint64_t took_ns = 0;  // from before the first post until the run is over
	// Latency of sampled messages: from post to completion or, with WindowMode::credit, to the
	// credit if there are credits.
	Histogram latency_ns;
	Delivery read;  // READ only: the sender's own check of the bytes that it has read
};

template <End E> class SenderOn {
public:
	explicit SenderOn(E& end);

	// Sends the messages of one run. Returns when all are completed (and, with credits, consumed),
	// when the receiver has finished, or when no UD credit came for 200 ms and the receiver is
	// idle. Throws a Failure on an error completion or a wrong one, when `watcher` reports that the
	// other process gave up, or after 10 s without progress. `sent` is up to date even then,
	// because the row of a failed repetition is made from it.
	void run(const Run& run, const Watcher& watcher, Sent& sent);

	// UD only: posts the receives for credits and for ud_server's report. Call it before the first
	// run.
	void post_receives();

private:
	// A message whose latency is measured.
	struct Sample {
		std::uint64_t sequence;
		std::uint64_t posted_at;  // by now_ns()
	};

	void run_loop(const Run& run, const Watcher& watcher, Sent& sent);
	template <Op op, bool segmented> void loop(const Run& run, const Watcher& watcher, Sent& sent);
	// Stamps and posts `count` messages from sequence number `first` on, as one list.
	template <Op op, bool segmented> void post(const Run& run, std::uint64_t first, std::uint32_t count);
	void post_fragments(ibv_send_wr* requests, std::byte* slot, std::uint64_t stamp);
	void post_receive(std::uint32_t index);
	// Takes one completion, of the sender's own requests or of a UD credit.
	template <Op op> void digest(const ibv_wc& completion, const Run& run, Sent& sent);
	void take_credit(const ibv_wc& completion, Sent& sent);
	// Checks messages [from, to) that were read.
	void verify_reads(std::uint64_t from, std::uint64_t to, Delivery& read);
	// Records the latency of the samples among the first `known` messages, which are completed or
	// consumed.
	void take_samples(std::uint64_t known, Histogram& latency);

	E& end_;
	Clock<E> clock_;
	const std::uint64_t credit_limit_;  // the most of posted - consumed
	const bool credits_;  // whether there are credits
	const bool credits_by_datagram_;  // whether they come as datagrams (UD)
	const unsigned base_flags_;  // the send flags of each request: IBV_SEND_INLINE or none

	std::vector<ibv_send_wr> requests_;  // a list, linked once
	std::vector<ibv_sge> pieces_;
	std::uint16_t run_ = 0;  // the run's number
	Pattern pattern_;
	std::uint32_t next_receive_ = 0;  // the buffer of the next UD credit
	std::uint32_t slot_ = 0;  // the next slot of this end to send from, or to read into
	std::uint32_t remote_slot_ = 0;  // the next slot of the receiver's ring
	std::uint32_t read_slot_ = 0;  // READ only: the next slot of this end to check
	std::uint32_t until_signal_ = 0;  // messages up to and with the next signaled one

	std::vector<Sample> samples_;  // a ring; its length is a power of two
	// In this run: samples recorded, and begun; the first message that may be sampled next.
	std::uint64_t sample_head_ = 0, sample_tail_ = 0, next_sample_ = 0;
};

extern template class SenderOn<Endpoint>;
using Sender = SenderOn<Endpoint>;

}  // namespace verbena::rcud

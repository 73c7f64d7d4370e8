// The measured loop of the sender: posts messages as the window allows; for READ it also checks the
// bytes that it read.
//
//     while not done:
//       post while  posted - completed < window  (own completions)
//              and  posted - consumed  < limit   (credits: the window, or a WRITE ring's length)
//       poll at most 16 completions; read the credits; take the latency of a sampled message
//
// The loop allocates nothing and makes no system call, and reads the clock only for sampled
// messages.
//
// Credits: over RC the receiver writes its count into `words[0]` by RDMA WRITE. Over UD it sends an
// empty datagram whose immediate holds the low bits of the count (traffic.h). Counts are
// cumulative, so a lost credit is made up for by the next one.
//
// Threads: one thread.
// Lifetime: the endpoint is connected and must outlive it.
#pragma once

#include <vector>

#include "base/histogram.h"
#include "bench/rcud/endpoint.h"
#include "bench/rcud/traffic.h"

namespace verbena::rcud {

// The sender's counts of one run, in messages.
struct Sent {
	std::uint64_t posted = 0;
	std::uint64_t completed = 0;  // own completions
	std::uint64_t consumed = 0;  // by the receiver, according to its credits
	Histogram latency_ns;  // from post to completion (local) or to credit (credit)
	Delivery read;  // READ: the reader is the receiver
};

class Sender {
public:
	explicit Sender(Endpoint& endpoint);

	// Returns when all messages are completed (and, with credits, consumed), when the receiver has
	// finished, or when no UD credit came for 200 ms and the receiver is idle. Throws Failure on an
	// error completion, when `watcher` gives up, or after 10 s without progress. `sent` is up to
	// date even then: the row of a failed repetition is made from it.
	void run(const Run& run, const Watcher& watcher, Sent& sent);

	// UD: posts the receives for credits and for ud_server's report. Call before the first run.
	void post_receives();

private:
	struct Sample {
		std::uint64_t sequence;
		std::uint64_t posted_at;
	};

	template <Op op, bool segmented> void loop(const Run& run, const Watcher& watcher, Sent& sent);
	// Stamps and posts `count` messages from sequence number `first` on, as one list.
	template <Op op, bool segmented> void post(const Run& run, std::uint64_t first, std::uint32_t count);
	// Takes one completion, of own messages or of a UD credit.
	template <Op op> void digest(const ibv_wc& completion, Sent& sent);
	// Checks the stamps of messages [from, to) that were read.
	void verify_reads(std::uint64_t from, std::uint64_t to, Delivery& read);
	// Records the latency of the samples among the first `known` messages.
	void take_samples(std::uint64_t known, Histogram& latency);

	Endpoint& end_;
	const std::uint64_t credit_limit_;  // posted - consumed, at most
	const bool credits_;  // whether the cell has credits
	const bool credits_by_datagram_;  // over UD
	const unsigned base_flags_;  // IBV_SEND_INLINE or none

	std::vector<ibv_send_wr> requests_;  // a list, linked once
	std::vector<ibv_sge> pieces_;
	std::uint16_t run_ = 0;
	std::uint32_t slot_ = 0;  // the next own slot to send from, or to read into
	std::uint32_t remote_slot_ = 0;  // the next slot of the target's ring
	std::uint32_t read_slot_ = 0;  // READ: the next own slot to check
	std::uint32_t until_signal_ = 0;  // messages until the next signaled one

	std::vector<Sample> samples_;  // a ring; its length is a power of two
	std::uint64_t sample_head_ = 0, sample_tail_ = 0, next_sample_ = 0;
};

}  // namespace verbena::rcud

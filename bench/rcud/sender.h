// The measured loop, sending side: posts messages as the window allows, and for READ also judges what came.
//
//     while not done:   post while  posted - completed < window  (own completions)
//                              and  posted - consumed  < limit   (credits: the window itself, or a WRITE ring's length)
//                       poll at most 16 completions; look at the credits; take the latency of a sampled message
//
// No allocation, no system call and no clock but for sampled messages. One thread; the endpoint is connected and
// outlives it.
//
// Credits: over RC the receiver writes its count into `words[0]` by RDMA WRITE; over UD it sends an empty datagram
// whose immediate is the count's low 32 bits (cumulative, so that a lost one costs nothing once another comes).
#pragma once

#include <vector>

#include "base/histogram.h"
#include "bench/rcud/endpoint.h"
#include "bench/rcud/traffic.h"

namespace verbena::rcud {

struct Sent {
	std::uint64_t posted = 0;
	std::uint64_t completed = 0;  // own completions, in messages
	std::uint64_t consumed = 0;  // as far as credits told
	Histogram latency_ns;  // post to completion (local) or to credit (credit)
	Delivery read;  // READ: the reader is the receiver
};

class Sender {
public:
	explicit Sender(Endpoint& endpoint);

	// Ends when all is completed (and, with credits, consumed), when the receiver has finished, or when UD credits stay
	// away for 200 ms from a receiver that is idle. Throws Failure on an error completion, when `watcher` says so, or
	// when nothing moves for 10 s. `sent` is kept up to date, also when it throws: what a row says of a run that broke.
	void run(const Run& run, const Watcher& watcher, Sent& sent);

	// The endpoint's receives for credits (and ud_server's account); before the first run.
	void post_receives();

private:
	struct Sample {
		std::uint64_t sequence;
		std::uint64_t posted_at;
	};

	template <Op op, bool segmented> void loop(const Run& run, const Watcher& watcher, Sent& sent);
	template <Op op, bool segmented> void post(const Run& run, std::uint64_t first, std::uint32_t count);
	template <Op op> void digest(const ibv_wc& completion, Sent& sent);
	void verify_reads(std::uint64_t from, std::uint64_t to, Delivery& read);
	void take_samples(std::uint64_t known, Histogram& latency);

	Endpoint& end_;
	const std::uint64_t credit_limit_;
	const bool credits_;
	const bool credits_by_datagram_;
	const unsigned base_flags_;

	std::vector<ibv_send_wr> requests_;  // a list, linked once
	std::vector<ibv_sge> pieces_;
	std::uint16_t run_ = 0;
	std::uint32_t slot_ = 0;
	std::uint32_t remote_slot_ = 0;
	std::uint32_t read_slot_ = 0;
	std::uint32_t until_signal_ = 0;

	std::vector<Sample> samples_;  // a ring, a power of two long
	std::uint64_t sample_head_ = 0, sample_tail_ = 0, next_sample_ = 0;
};

}  // namespace verbena::rcud

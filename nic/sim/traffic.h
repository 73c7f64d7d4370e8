// SPDX-License-Identifier: Apache-2.0
// Checked traffic in one direction of a reliable connection. `from` posts a random mix of
// operations to `to`, and this class checks every promise of the verbs from outside: it knows the
// posted requests and sees only completions and memory.
//
//   - Completions come in posting order, one for each signaled request and none for others, with
//     success and the right opcode and length.
//   - Each message arrives exactly once, in order, in the oldest receive, with its bytes and
//     immediate data, and nothing is written behind them.
//   - At the end, the written region has the contents that the WRITEs in posting order produce.
//     READs return the remote contents; source buffers do not change.
//   - Each atomic is executed exactly once: it returns the value that its predecessors left.
//   - Nothing is written outside registered memory.
//
// Errors: problems() has a line for each violation. A run is good if it is done() without any.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "nic/sim/endpoint.h"
#include "nic/sim/random.h"

namespace verbena::sim {

struct TrafficOptions {
	std::uint32_t operations = 100;
	std::uint32_t size_max = 8192;
	// Relative frequencies.
	std::uint32_t sends = 4, writes = 3, reads = 2, atomics = 2;
	double unsignaled = 0.3;  // probability
	double late_receive = 0;  // the probability that a used receive is reposted after a pause only
};

class Traffic {
public:
	Traffic(Endpoint& from, Endpoint& to, const TrafficOptions& options, std::uint64_t seed);

	// Polls, checks the completions, and posts new requests as far as there is room.
	void step();
	bool done() const { return completed_ == options_.operations && expected_.empty() && problems_.empty(); }
	bool broken() const { return !problems_.empty(); }
	// The checks of the final memory contents and of surplus completions. Call it once, after
	// done().
	void check_end();
	const std::vector<std::string>& problems() const { return problems_; }
	std::string progress() const;  // for the report of a run that stalls

private:
	struct Operation {
		std::uint64_t number;
		Work work;
		std::uint32_t length;
		std::uint32_t source_offset;  // a READ's offset in the remote region
		std::uint64_t original;  // the value that an atomic must return
	};
	struct Message {
		std::uint64_t number;
		std::uint32_t length;
		Work work;
	};

	std::byte content(std::uint64_t number, std::uint32_t i) const;
	Work draw(std::uint64_t number, Operation& operation);
	void post();
	void check_sent(const queues::Completion& completion);
	void check_operation(const Operation& operation);
	void check_received(const queues::Completion& completion);
	void post_receive();
	std::uint32_t draw_size();
	std::vector<queues::Segment> cut(const Region& region, std::uint32_t offset, std::uint32_t length);
	std::uint32_t local_buffer(std::uint64_t number) const {
		return static_cast<std::uint32_t>(number % buffers_) * options_.size_max;
	}
	template <class... Parts> void wrong(const Parts&... parts);

	Endpoint& from_;
	Endpoint& to_;
	TrafficOptions options_;
	std::uint64_t seed_;
	Random random_;
	std::uint32_t buffers_;  // local buffers: one for each request that can be in flight
	std::uint32_t receive_buffers_;
	Region& local_;  // at `from`
	Region& receives_;  // at `to`: receive buffers
	Region& target_;  // at `to`: written by WRITE
	Region& source_;  // at `to`: read by READ
	Region& counters_;  // at `to`: atomics

	// The contents that the posted requests must produce.
	std::vector<std::byte> target_shadow_;
	std::vector<std::uint64_t> counters_shadow_;
	std::deque<Operation> outstanding_;
	std::deque<Message> expected_;
	std::uint64_t posted_ = 0, completed_ = 0;
	std::uint64_t unsignaled_run_ = 0;  // requests posted since the last signaled one
	std::uint64_t receives_posted_ = 0, receives_used_ = 0;
	std::size_t sent_seen_ = 0, received_seen_ = 0;
	std::vector<std::string> problems_;
};

}  // namespace verbena::sim

// Checked traffic in one direction of a reliable connection: `from` posts a random mix of operations towards `to`, and
// everything that the verbs promise is checked from outside, by a party that knows what was posted and sees only
// completions and memory:
//
//   - completions come in posting order, one for each signaled request and none for others, with success and the right
//   opcode and length;
//   - each message arrives exactly once, in order, in the oldest receive, with its bytes and immediate data, and
//   nothing is written behind them;
//   - the written region is at the end what the WRITEs in posting order make of it; READs return what is there; sources
//   stay as they are;
//   - each atomic is executed once: every one returns exactly what the ones before it have left;
//   - nothing is written outside registered memory.
//
// What is found wrong is kept as text in problems(); a run is good when it is done() and has none.
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
	double unsignaled = 0.3;
	double late_receive = 0;  // a used receive is posted again only after a pause
};

class Traffic {
public:
	Traffic(Endpoint& from, Endpoint& to, const TrafficOptions& options, std::uint64_t seed);

	// Polls, checks, posts what there is room for.
	void step();
	bool done() const { return completed_ == options_.operations && expected_.empty() && problems_.empty(); }
	bool broken() const { return !problems_.empty(); }
	// What only the end can show; call it once after done().
	void check_end();
	const std::vector<std::string>& problems() const { return problems_; }
	std::string progress() const;

private:
	struct Operation {
		std::uint64_t number;
		Work work;
		std::uint32_t length;
		std::uint32_t source_offset;  // READ: into the remote region
		std::uint64_t original;  // atomics: what it must return
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
	std::uint32_t buffers_;  // local buffers, one for each request that can be outstanding
	std::uint32_t receive_buffers_;
	Region& local_;  // at `from`
	Region& receives_;  // at `to`: receive buffers
	Region& target_;  // at `to`: written by WRITE
	Region& source_;  // at `to`: read by READ
	Region& counters_;  // at `to`: atomics

	std::vector<std::byte> target_shadow_;
	std::vector<std::uint64_t> counters_shadow_;
	std::deque<Operation> outstanding_;
	std::deque<Message> expected_;
	std::uint64_t posted_ = 0, completed_ = 0;
	std::uint64_t unsignaled_run_ = 0;
	std::uint64_t receives_posted_ = 0, receives_used_ = 0;
	std::size_t sent_seen_ = 0, received_seen_ = 0;
	std::vector<std::string> problems_;
};

}  // namespace verbena::sim

// SPDX-License-Identifier: Apache-2.0
// Fuzzes two adapters with lists of operations on queue pairs: post, receive, modify, deliver,
// lose, in any order that the verbs allow a program.
//
// The fabric is the simulator's. It is lossless, as between two processes of one host, or it
// carries packets and the input chooses those that are lost. For all lists: only posted requests
// complete, once and in order. When receives are posted and time passes, all work ends: no reliable
// connection whose two ends are in RTS keeps work that neither completes nor fails.
#include <memory>
#include <vector>

#include "base/check.h"
#include "fuzz/input.h"
#include "nic/sim/endpoint.h"

namespace verbena::fuzz {
namespace {

using namespace sim;
using queues::SendOpcode;
using transport::QpState;
using transport::QpType;

constexpr std::uint32_t q_key = 0x11111111;
constexpr std::uint32_t region_bytes = 64 * 1024;
constexpr int rnr_retries[] = {0, 2, 7};

struct End {
	End(Host& host, const EndpointOptions& options) : at(host, options) {}
	Endpoint at;
	End* peer = nullptr;
	std::uint64_t sends_posted = 0;
	std::uint64_t last_sent = 0, last_received = 0;
};

class World {
public:
	explicit World(Input& input)
		: input_(input),
		  fabric_({.seed = input.byte(),
			  .lossless = input.flag(),
			  .faults = {.delay = 2'000, .jitter = 3'000},
			  .events_max = 200'000}),
		  a_(fabric_.add_host()),
		  b_(fabric_.add_host()) {
		options_.path_mtu = static_cast<std::uint8_t>(1 + input.below(5));
		options_.timeout = 8;
		options_.retry_count = static_cast<std::uint8_t>(input.below(4));
		options_.rnr_retry = static_cast<std::uint8_t>(rnr_retries[input.below(3)]);
		options_.rd_atomic = static_cast<std::uint8_t>(1 + input.below(4));
		shared_.shared = true;
		for (const auto type : {QpType::rc, QpType::rc, QpType::uc, QpType::ud}) {
			for (Host* host : {&a_, &b_}) {
				EndpointOptions options{.type = type, .send_entries = 8, .receive_entries = 8, .segments = 2};
				if (host == &b_ && ends_.size() == 3) options.shared_receive_queue = &shared_;
				ends_.push_back(std::make_unique<End>(*host, options));
			}
			End &one = *ends_.rbegin()[1], &other = *ends_.back();
			one.peer = &other;
			other.peer = &one;
			join(one, true);
		}
		fabric_.loses = [this](const Fabric::Departure&) {
			if (losses_ == 0) return false;
			--losses_;
			return true;
		};
		fabric_.each_step = [this] {
			for (auto& end : ends_) poll(*end);
			if (replenish_) replenish();
		};
	}

	void step() {
		switch (input_.below(11)) {
			case 0:
			case 1:
			case 2: return post(end());
			case 3:
			case 4: post_receive(end(), input_.take<std::uint16_t>()); return;
			case 5:
			case 6: return fabric_.run_for(Nanoseconds{1} << (8 + input_.below(12)));
			case 7: losses_ = input_.below(8); return;
			case 8: return modify(end());
			case 9: return join(end(), input_.below(4) != 0);
			default: return fabric_.run_for(input_.take<std::uint32_t>() % 50'000'000);
		}
	}

	void finish() {
		losses_ = 0;
		replenish_ = true;
		const Ended ended = fabric_.run_until([] { return false; });
		if (ended != Ended::idle) fail("the fabric does not become idle");
		for (auto& end : ends_) {
			if (end->at.qp.state != QpState::rts || end->at.quiet()) continue;
			// A QP whose peer was reset and connected again fails after its timeout, which is short
			// here.
			fail("a request neither completes nor fails");
		}
		check(a_.guards_are_intact() && b_.guards_are_intact(), "nothing is written outside registered memory");
	}

private:
	End& end() { return *ends_[input_.below(static_cast<std::uint32_t>(ends_.size()))]; }

	[[noreturn]] void fail(const char* what) {
		std::fputs(fabric_.describe().c_str(), stderr);
		check(false, what);
		std::abort();
	}

	// Resets and connects both ends, as two programs do that connect again; or one end alone.
	void join(End& one, bool both) {
		// Sometimes the other end is a queue pair that is not connected to this one and may have
		// another type.
		End& other = !both && input_.flag() ? end() : *one.peer;
		if (&other.at.host == &one.at.host) return;
		const std::uint32_t psn = input_.take<std::uint32_t>() & 0xffffff;
		one.at.to_state(QpState::reset);
		if (both) other.at.to_state(QpState::reset);
		if (one.at.qp.type == QpType::ud) {
			activate(one.at, q_key);
			if (both) activate(other.at, q_key);
			return;
		}
		make_ready_to_receive(one.at, other.at, options_, psn);
		if (both) {
			make_ready_to_receive(other.at, one.at, options_, psn ^ 0x800);
			if (input_.below(8) != 0) make_ready_to_send(other.at, options_, psn);
		}
		make_ready_to_send(one.at, options_, psn ^ 0x800);
	}

	void modify(End& end) {
		switch (input_.below(5)) {
			case 0: end.at.to_state(QpState::error); return;
			case 1: end.at.to_state(QpState::reset); return;
			case 2:
				end.at.modify({.mask = transport::qp_state | transport::qp_sqd_notify,
					.state = QpState::sqd,
					.sqd_notify = true});
				return;
			case 3: end.at.to_state(QpState::sqd); return;
			default: end.at.to_state(QpState::rts); return;
		}
	}

	Region& memory_of(const End& end) { return &end.at.host == &a_ ? memory_a_ : memory_b_; }

	queues::Segment some_segment(Region& region) {
		const std::uint32_t length = input_.flag() ? input_.byte() : input_.take<std::uint16_t>() % 20'000;
		queues::Segment segment = region.segment(input_.byte() * 64, length);
		if (input_.below(32) == 0) segment.lkey ^= input_.byte();
		return segment;
	}

	void post(End& end) {
		const QpState state = end.at.qp.state;
		if (state != QpState::rts && state != QpState::sqd && state != QpState::sqe && state != QpState::error) return;
		std::vector<Work> works(1 + input_.below(4));
		for (std::uint64_t id = end.sends_posted; Work & work : works) fill(work, end, ++id);
		if (end.at.post(works)) end.sends_posted += works.size();
	}

	void fill(Work& work, End& end, std::uint64_t wr_id) {
		static constexpr SendOpcode any[] = {SendOpcode::send, SendOpcode::send_imm, SendOpcode::rdma_write,
			SendOpcode::rdma_write_imm, SendOpcode::rdma_read, SendOpcode::compare_swap, SendOpcode::fetch_add,
			SendOpcode::send_invalidate, SendOpcode::local_invalidate};
		const QpType type = end.at.qp.type;
		work.opcode = any[input_.below(type == QpType::ud ? 2 : type == QpType::uc ? 4 : 9)];
		work.wr_id = wr_id;
		work.flags = static_cast<std::uint8_t>(input_.below(8));
		work.immediate = input_.byte();
		work.to = &end.peer->at;
		work.q_key = q_key;
		Region& own = memory_of(end);
		Region& theirs = memory_of(*end.peer);
		const bool atomic = work.opcode == SendOpcode::compare_swap || work.opcode == SendOpcode::fetch_add;
		work.remote_address = theirs.at(input_.byte() * 8);
		work.rkey = input_.below(32) ? theirs.key() : input_.take<std::uint32_t>();
		if (work.opcode == SendOpcode::local_invalidate) return;
		if (atomic) work.segments = {own.segment(input_.byte() * 8, 8)};
		else if (work.opcode != SendOpcode::rdma_read && input_.below(4) == 0)
			work.inline_data.resize(1 + input_.below(64));
		else
			for (std::uint32_t i = input_.below(3); i; --i) work.segments.push_back(some_segment(own));
	}

	bool post_receive(End& end, std::uint32_t length) {
		if (end.at.qp.state == QpState::reset || end.at.qp.state == QpState::error) return false;
		Region& region = memory_of(end);
		return end.at.post_receive(++receives_, region.segment(0, length));
	}

	void replenish() {
		for (auto& end : ends_)
			while (post_receive(*end, region_bytes)) {}
	}

	void poll(End& end) {
		end.at.poll();
		for (const queues::Completion& done : end.at.sent) {
			check(done.wr_id > end.last_sent && done.wr_id <= end.sends_posted,
				"sends complete once, in order, and only if they were posted");
			end.last_sent = done.wr_id;
		}
		for (const queues::Completion& done : end.at.received) {
			check(done.wr_id > end.last_received && done.wr_id <= receives_,
				"receives complete once, in order, and only if they were posted");
			end.last_received = done.wr_id;
		}
		end.at.sent.clear();
		end.at.received.clear();
	}

	Input& input_;
	ConnectionOptions options_;
	Fabric fabric_;
	Host &a_, &b_;
	Region& memory_a_ = a_.region(region_bytes);
	Region& memory_b_ = b_.region(region_bytes);
	queues::ReceiveQueue shared_{16, 2};
	std::vector<std::unique_ptr<End>> ends_;
	std::uint32_t losses_ = 0;
	std::uint64_t receives_ = 0;
	bool replenish_ = false;
};

}  // namespace
}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
	verbena::fuzz::Input input(data, size);
	verbena::fuzz::World world(input);
	while (!input.ended()) world.step();
	world.finish();
	return 0;
}

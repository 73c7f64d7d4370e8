// SPDX-License-Identifier: Apache-2.0
#include "nic/sim/litmus.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace verbena::sim::litmus {

using queues::SendOpcode;
using queues::Status;

namespace {

// Far more steps than the longest delay of the adversary needs.
constexpr int steps_max = 1'000'000;

adversary::Spec spec_of(std::uint64_t seed, adversary::Model model) {
	adversary::Spec spec;
	spec.seed = seed;
	spec.model = model;
	return spec;
}

}  // namespace

Node::Observed::Observed(Node& node) : node(node) { node.host_.adapter.context().observer = &node.adversary_; }
Node::Observed::~Observed() { node.host_.adapter.context().observer = nullptr; }

Node::Node(Fabric& fabric, const adversary::Spec& spec)
	: host_(fabric.add_host()),
	  memory_(host_.region(received_offset + received_bytes)),
	  adversary_(
		  spec, host_.adapter, nullptr, [this] { schedule(); }, [](const adversary::Decision&) {}),
	  ends_{{Endpoint(host_), Endpoint(host_)}} {}

std::uint64_t Node::load(Word word) const {
	std::uint64_t value;
	std::memcpy(&value, memory_.bytes().data() + word * line, sizeof value);
	return value;
}

void Node::store(Word word, std::uint64_t value) {
	std::memcpy(memory_.bytes().data() + word * line, &value, sizeof value);
}

void Node::put(Queue queue, Word there, Word here, std::uint8_t flags) {
	rdma(queue, SendOpcode::rdma_write, here * line, there * line, sizeof(std::uint64_t), flags);
}
void Node::put_imm(Queue queue, Word there, Word here) {
	rdma(queue, SendOpcode::rdma_write_imm, here * line, there * line, sizeof(std::uint64_t), 0);
}
void Node::put_block(Queue queue) { rdma(queue, SendOpcode::rdma_write, block_offset, block_offset, block_bytes, 0); }
void Node::get(Queue queue, Word here, Word there, std::uint8_t flags) {
	rdma(queue, SendOpcode::rdma_read, here * line, there * line, sizeof(std::uint64_t), flags);
}
void Node::send(Queue queue, std::uint8_t flags) {
	rdma(queue, SendOpcode::send, one * line, 0, sizeof(std::uint64_t), flags);
}

void Node::rdma(
	Queue queue, SendOpcode opcode, std::uint32_t here, std::uint32_t there, std::uint32_t bytes, std::uint8_t flags) {
	Work work{.opcode = opcode,
		.flags = static_cast<std::uint8_t>(flags | queues::send_signaled),
		.remote_address = peer_->memory_.at(there),
		.rkey = peer_->memory_.key()};
	if (flags & queues::send_inline) {
		const auto from = memory_.bytes().subspan(here, bytes);
		work.inline_data.assign(from.begin(), from.end());
	} else {
		work.segments = {memory_.segment(here, bytes)};
	}
	post(queue, work);
}

void Node::post(Queue queue, const Work& work) {
	host_.fabric.pass(host_, [&] { adversary_.before_post(ends_[queue].qp); });
	check(ends_[queue].post(work), "the send queue has room for a litmus test");
	++posted_[queue];
	if (adversary_.observe()) advance();
}

void Node::post_receive(Queue queue) {
	check(ends_[queue].post_receive(0, memory_.segment(received_offset, received_bytes)), "a receive is posted");
}

void Node::poll(Queue queue) {
	Endpoint& end = ends_[queue];
	const std::size_t before = end.sent.size() + end.received.size();
	end.poll();
	for (std::size_t i = end.sent.size() + end.received.size(); i > before; --i)
		if (adversary_.observe()) advance();
	for (const auto* each : {&end.sent, &end.received})
		for (const auto& completion : *each) check(completion.status == Status::success, "a request succeeds");
}

bool Node::poll_sends(Queue queue) {
	poll(queue);
	return ends_[queue].sent.size() == posted_[queue];
}

bool Node::poll_receive(Queue queue) {
	poll(queue);
	return !ends_[queue].received.empty();
}

void Node::advance() {
	host_.fabric.pass(host_, [&] { adversary_.advance(host_.fabric.now()); });
	schedule();
}

// The end of the next delay. An event that was scheduled for a later time is ignored then.
void Node::schedule() {
	const Nanoseconds due = adversary_.due();
	if (due >= next_) return;
	next_ = due;
	host_.fabric.at(due, [this, due] {
		if (next_ != due) return;
		next_ = never;
		advance();
	});
}

void Node::begin_round() {
	std::ranges::fill(memory_.bytes(), std::byte{0});
	store(one, 1);
	store(two, 2);
	for (Endpoint& end : ends_) {
		end.sent.clear();
		end.received.clear();
	}
	posted_ = {};
	r = 0;
}

Rig::Rig(std::uint64_t seed, adversary::Model model)
	: random_(seed),
	  fabric_({.seed = seed, .lossless = true, .faults = {.delay = 500, .jitter = 2'000}}),
	  first_(fabric_, spec_of(seed, model)),
	  second_(fabric_, spec_of(seed + (std::uint64_t{1} << 32), model)) {
	first_.peer_ = &second_;
	second_.peer_ = &first_;
	for (const Queue queue : {q, q2}) connect(first_.ends_[queue], second_.ends_[queue]);
}

bool Rig::run(const LitmusTest& test) {
	first_.begin_round();
	second_.begin_round();
	if (test.prepare) test.prepare(second_);
	std::size_t at[2] = {};
	for (int steps = 0; at[0] < test.first.size() || at[1] < test.second.size(); ++steps) {
		check(steps < steps_max, "a litmus test ends");
		const bool second = random_.below(2) != 0;
		const std::vector<Step>& program = second ? test.second : test.first;
		if (at[second] < program.size() && program[at[second]](second ? second_ : first_)) ++at[second];
		fabric_.run_for(random_.chance(0.5) ? random_.between(1, 300) : random_.between(1, 5'000));
	}
	check(fabric_.settle(), "the fabric comes to rest");
	for (Node* const node : {&first_, &second_})
		for (const Queue queue : {q, q2}) node->poll(queue);
	return test.seen(first_, second_);
}

}  // namespace verbena::sim::litmus

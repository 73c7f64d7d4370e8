// SPDX-License-Identifier: Apache-2.0
// Litmus tests on the virtual clock: two programs on two hosts with unkind NICs, and two reliable
// queue pairs between them. docs/memory-model.md has the tests and their notation; tests/litmus
// runs them in processes.
//
// A program is a list of steps. Between two steps of either program the clock advances by a random
// time, so that a seed determines all that happens.
//
// Threads: one.
// Owns: a Rig owns the fabric with its hosts, and both programs' memory.
// Errors: a request that fails, or a program that does not end, is our own bug (check).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "nic/adversary/adversary.h"
#include "nic/sim/endpoint.h"

namespace verbena::sim::litmus {

// Words of 8 bytes, each in a cache line of its own; both nodes have all of them.
enum Word : std::uint8_t { x, y, z, d, f, one, two, word_count };
enum Queue : std::uint8_t { q, q2, queue_count };

class Node {
public:
	Node(Fabric& fabric, const adversary::Spec& spec);

	std::uint64_t load(Word word) const;
	void store(Word word, std::uint64_t value);
	std::span<std::byte> block() { return memory_.bytes().subspan(block_offset, block_bytes); }

	// Each posts one signaled request; `flags` are queues::SendFlags.
	void put(Queue queue, Word there, Word here, std::uint8_t flags = 0);
	void put_imm(Queue queue, Word there, Word here);
	void put_block(Queue queue);
	void get(Queue queue, Word here, Word there, std::uint8_t flags = 0);
	void send(Queue queue, std::uint8_t flags = 0);
	void post_receive(Queue queue);
	// Takes completions; true if all requests of the queue pair, or one receive, have completed.
	bool poll_sends(Queue queue);
	bool poll_receive(Queue queue);

	std::uint64_t r = 0;  // the value that the program has read last

private:
	friend class Rig;
	static constexpr std::uint32_t line = 64, block_offset = word_count * line, block_bytes = 1024,
								   received_offset = block_offset + block_bytes, received_bytes = 64;

	struct Observed {
		explicit Observed(Node& node);
		~Observed();
		Node& node;
	};

	void rdma(Queue queue, queues::SendOpcode opcode, std::uint32_t here, std::uint32_t there, std::uint32_t bytes,
		std::uint8_t flags);
	void post(Queue queue, const Work& work);
	void poll(Queue queue);
	void advance();
	void schedule();
	void begin_round();

	Host& host_;
	Region& memory_;
	Node* peer_ = nullptr;
	adversary::Adversary adversary_;
	Nanoseconds next_ = never;  // when advance() is scheduled
	const Observed observed_{*this};
	std::array<Endpoint, queue_count> ends_;
	std::array<std::size_t, queue_count> posted_{};
};

// One step of a program. False: it waits, and is tried again.
using Step = std::function<bool(Node&)>;

struct LitmusTest {
	const char* name;
	std::vector<Step> first, second;
	// The outcome in question, after both programs have ended and all bytes are stored.
	std::function<bool(const Node& first, const Node& second)> seen;
	std::array<bool, 3> allowed;  // by adversary::Model
	std::function<void(Node& second)> prepare = nullptr;
};

class Rig {
public:
	Rig(std::uint64_t seed, adversary::Model model);

	// Runs both programs once. True: the outcome was seen.
	bool run(const LitmusTest& test);

private:
	Random random_;
	Fabric fabric_;
	Node first_, second_;
};

}  // namespace verbena::sim::litmus

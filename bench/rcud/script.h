// SPDX-License-Identifier: Apache-2.0
// The part of a scripted end that all have: the steps of the script, the completions that a poll
// returns, and a clock that moves by polls and readings.
//
// A poll without a completion in the queue takes the next step of the script; after the last step
// it calls `otherwise`. Time passes by polls and by readings of the clock; a step may change it.
//
// Threads: one thread.
// Lifetime: test code only.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "bench/rcud/traffic.h"

namespace verbena::rcud {

struct Script {
	using Edit = std::function<void(ibv_wc&)>;

	// A send request that was posted, with the bytes that it had at that time.
	struct Posted {
		explicit Posted(const ibv_send_wr& posted, std::uint32_t on = 0) : request(posted), queue_pair(on) {
			for (int i = 0; i < request.num_sge; ++i) {
				const ibv_sge& piece = request.sg_list[i];
				auto* at = reinterpret_cast<std::byte*>(piece.addr);
				if (i == 0) local = at;
				bytes.insert(bytes.end(), at, at + piece.length);
			}
		}

		ibv_send_wr request;
		std::uint32_t queue_pair;
		std::byte* local = nullptr;  // its first piece
		std::vector<std::byte> bytes;
		std::uint64_t wr_id() const { return request.wr_id; }
		bool is_signaled() const { return (request.send_flags & IBV_SEND_SIGNALED) != 0; }
	};

	// The completion that a correct device returns.
	static ibv_wc completion_of(const Posted& sent, std::uint32_t bytes, std::uint32_t qp_num) {
		ibv_wc completion{};
		completion.wr_id = sent.wr_id();
		completion.opcode = sent.request.opcode == IBV_WR_RDMA_WRITE ? IBV_WC_RDMA_WRITE
			: sent.request.opcode == IBV_WR_RDMA_READ                ? IBV_WC_RDMA_READ
																	 : IBV_WC_SEND;
		completion.byte_len = bytes;
		completion.qp_num = qp_num;
		return completion;
	}

	std::deque<std::function<void()>> steps;
	std::function<void()> otherwise = [] {};
	std::function<void()> at_reading = [] {};
	std::uint64_t time = 1'000'000'000, poll_ns = 100, reading_ns = 20;
	std::deque<ibv_wc> completions;

	int poll(ibv_wc* to) {
		time += poll_ns;
		if (completions.empty()) {
			if (steps.empty()) {
				otherwise();
			} else {
				const auto step = std::move(steps.front());
				steps.pop_front();
				step();
			}
		}
		int n = 0;
		for (; n < poll_batch && !completions.empty(); completions.pop_front()) to[n++] = completions.front();
		return n;
	}
	std::uint64_t now() {
		at_reading();
		return time += reading_ns;
	}
};

// Ends a test that would never end: a watcher abandons the run after this many calls.
inline constexpr int asks_max = 20'000;

// The watcher of a sender: its far end is idle or not when credits are missing.
struct SenderWatcher {
	int asks = 0, silences = 0;
	bool idle_receiver = true;

	Watch look(bool silent) {
		if (++asks > asks_max) return Watch::abandon;
		silences += silent ? 1 : 0;
		return silent && idle_receiver ? Watch::receiver_idle : Watch::go_on;
	}
};

// The watcher of a receiver, whose senders have finished when the script has no more steps.
inline Watcher until_the_steps_end(const Script& script) {
	return [&script, asks = 0](bool) mutable {
		if (++asks > asks_max) return Watch::abandon;
		return script.steps.empty() ? Watch::finished : Watch::go_on;
	};
}

// The message of the failure with which a run ends; empty if it ends well.
template <class Go> std::string failure_of(const Go& go) {
	try {
		go();
	} catch (const Failure& failure) {
		return failure.what();
	}
	return "";
}

}  // namespace verbena::rcud

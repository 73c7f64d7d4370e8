// An end for tests of the measured loops: its far end and its device follow a script. It stands
// above the verbs interface: requests and completions are values, and no verb is called.
//
// A poll without a completion in the queue takes the next step of the script; after the last step
// it calls `otherwise`. Time passes by polls and by readings of the clock; a step may change it.
//
// Threads: one thread.
// Lifetime: test code only.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "bench/rcud/endpoint.h"
#include "bench/rcud/pattern.h"

namespace verbena::rcud {

struct ScriptedEnd : Buffers {
	ScriptedEnd(const Cell& cell, const Shape& shape, Role role) : Buffers(cell, shape, role) {}

	// A send request that was posted, with the bytes that it had at that time.
	struct Posted {
		ibv_send_wr request;
		std::byte* local;  // its first piece
		std::vector<std::byte> bytes;
		std::uint64_t wr_id() const { return request.wr_id; }
		bool is_signaled() const { return (request.send_flags & IBV_SEND_SIGNALED) != 0; }
	};
	using Edit = std::function<void(ibv_wc&)>;

	// ---- the script
	std::deque<std::function<void()>> steps;
	std::function<void()> otherwise = [] {};
	std::function<void()> at_reading = [] {};
	std::uint64_t time = 1'000'000'000, poll_ns = 100, reading_ns = 20;

	std::deque<Posted> sends;  // not completed yet
	std::vector<Posted> all_sends;
	std::deque<ibv_recv_wr> receives;
	std::deque<std::byte*> receive_memory;
	std::deque<ibv_wc> completions;
	static constexpr std::uint32_t number = 0x4711;  // the queue pair's

	// The next receive gets a message, and completes as `edit` says.
	void arrive(std::span<const std::byte> message, const Edit& edit = {}) {
		ibv_wc completion{};
		completion.wr_id = receives.front().wr_id;
		completion.opcode = IBV_WC_RECV;
		completion.byte_len = static_cast<std::uint32_t>(message.size()) + grh_bytes();
		completion.qp_num = number;
		std::ranges::copy(message.first(std::min<std::size_t>(message.size(), receive_payload)),
			receive_memory.front() + grh_bytes());
		receives.pop_front();
		receive_memory.pop_front();
		if (edit) edit(completion);
		completions.push_back(completion);
	}
	// The send request that was posted first completes, if it is signaled.
	void complete_one(const Edit& edit = {}) {
		const Posted sent = sends.front();
		sends.pop_front();
		if (!sent.is_signaled()) return;
		ibv_wc completion{};
		completion.wr_id = sent.wr_id();
		completion.opcode = sent.request.opcode == IBV_WR_RDMA_WRITE ? IBV_WC_RDMA_WRITE
			: sent.request.opcode == IBV_WR_RDMA_READ                ? IBV_WC_RDMA_READ
																	 : IBV_WC_SEND;
		completion.byte_len = cell.msg;
		completion.qp_num = number;
		if (edit) edit(completion);
		completions.push_back(completion);
	}
	void complete_all() {
		while (!sends.empty()) complete_one();
	}

	// ---- End
	void post_sends(ibv_send_wr* list) {
		for (; list != nullptr; list = list->next) {
			Posted posted{.request = *list, .local = nullptr, .bytes = {}};
			for (int i = 0; i < list->num_sge; ++i) {
				const ibv_sge& piece = list->sg_list[i];
				auto* at = reinterpret_cast<std::byte*>(piece.addr);
				if (i == 0) posted.local = at;
				posted.bytes.insert(posted.bytes.end(), at, at + piece.length);
			}
			sends.push_back(posted);
			all_sends.push_back(posted);
		}
	}
	void post_receives(ibv_recv_wr* list) {
		for (; list != nullptr; list = list->next) {
			receives.push_back(*list);
			receive_memory.push_back(reinterpret_cast<std::byte*>(list->sg_list->addr));
		}
	}
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
	static std::uint32_t lkey() { return 1; }
	static std::uint32_t qp_num() { return number; }
	static ibv_ah* address_handle() { return nullptr; }
};

static_assert(End<ScriptedEnd>);

// Ends a test that would never end: a watcher abandons the run after this many calls.
inline constexpr int asks_max = 20'000;

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

// SPDX-License-Identifier: Apache-2.0
// An end for tests of the measured loops: its far end and its device follow a script (script.h). It
// stands above the verbs interface: requests and completions are values, and no verb is called.
//
// Threads: one thread.
// Lifetime: test code only.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <deque>
#include <span>
#include <vector>

#include "bench/rcud/endpoint.h"
#include "bench/rcud/pattern.h"
#include "bench/rcud/script.h"

namespace verbena::rcud {

struct ScriptedEnd : Buffers, Script {
	ScriptedEnd(const Cell& cell, const Shape& shape, Side role) : Buffers(cell, shape, role) {}

	std::deque<Posted> sends;  // not completed yet
	std::vector<Posted> all_sends;
	std::deque<ibv_recv_wr> receives;
	std::deque<std::byte*> receive_memory;
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
		ibv_wc completion = completion_of(sent, cell.msg, number);
		if (edit) edit(completion);
		completions.push_back(completion);
	}
	void complete_all() {
		while (!sends.empty()) complete_one();
	}

	// ---- End
	void post_sends(ibv_send_wr* list) {
		for (; list != nullptr; list = list->next) all_sends.push_back(sends.emplace_back(*list));
	}
	void post_receives(ibv_recv_wr* list) {
		for (; list != nullptr; list = list->next) {
			receives.push_back(*list);
			receive_memory.push_back(reinterpret_cast<std::byte*>(list->sg_list->addr));
		}
	}
	static std::uint32_t lkey() { return 1; }
	static std::uint32_t qp_num() { return number; }
	static ibv_ah* address_handle() { return nullptr; }
};

static_assert(End<ScriptedEnd>);

}  // namespace verbena::rcud

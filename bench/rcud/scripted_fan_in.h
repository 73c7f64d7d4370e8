// SPDX-License-Identifier: Apache-2.0
// Ends of many queue pairs for tests of their measured loops: the far ends and the device follow a
// script (script.h). No verb is called.
//
// Queue pair i has the number first_qpn + i here, and first_remote_qpn + i at the other end; UD has
// one queue pair at the receiver.
//
// Threads: one thread.
// Lifetime: test code only.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <deque>
#include <span>
#include <vector>

#include "bench/rcud/fan_in_end.h"
#include "bench/rcud/script.h"

namespace verbena::rcud {

template <class Memory> struct ScriptedFanIn : Memory, Script {
	using Memory::Memory;

	static constexpr std::uint32_t first_qpn = 0x100, first_remote_qpn = 0x9000;

	std::deque<Posted> sends;  // not completed yet
	std::vector<Posted> all_sends;
	struct Receive {
		std::uint64_t wr_id;
		std::byte* memory;
	};
	std::deque<Receive> receives;
	FanInAddress far{.qkey = 7, .credit_words = 0x10000, .credit_rkey = 5};

	// Receive `at` of those that are posted completes. `bytes` follow the GRH of `grh` bytes.
	void arrive(std::span<const std::byte> bytes, std::uint32_t grh, const Edit& edit, std::size_t at = 0) {
		const Receive receive = receives.at(at);
		receives.erase(receives.begin() + static_cast<std::ptrdiff_t>(at));
		std::ranges::copy(bytes, receive.memory + grh);
		ibv_wc completion{};
		completion.wr_id = receive.wr_id;
		completion.opcode = IBV_WC_RECV;
		completion.byte_len = static_cast<std::uint32_t>(bytes.size()) + grh;
		completion.qp_num = first_qpn;
		if (edit) edit(completion);
		completions.push_back(completion);
	}
	// Send request `at` of those under way completes, if it is signaled.
	void complete(std::size_t at = 0, const Edit& edit = {}) {
		const Posted sent = sends.at(at);
		sends.erase(sends.begin() + static_cast<std::ptrdiff_t>(at));
		if (!sent.is_signaled()) return;
		ibv_wc completion = completion_of(sent, this->cell.msg, qp_num(sent.queue_pair));
		if (edit) edit(completion);
		completions.push_back(completion);
	}
	void complete_all() {
		while (!sends.empty()) complete();
	}

	// ---- FanInEnd
	void post_send(std::uint32_t queue_pair, const ibv_send_wr& request) {
		all_sends.push_back(sends.emplace_back(request, queue_pair));
	}
	void post_receives(ibv_recv_wr* list) {
		for (; list != nullptr; list = list->next)
			receives.push_back({list->wr_id, reinterpret_cast<std::byte*>(list->sg_list->addr)});
	}
	static std::uint32_t lkey() { return 1; }
	static std::uint32_t qp_num(std::uint32_t queue_pair) { return first_qpn + queue_pair; }
	static std::uint32_t remote_qpn(std::uint32_t queue_pair) { return first_remote_qpn + queue_pair; }
	const FanInAddress& remote() const { return far; }
	static ibv_ah* address_handle() { return nullptr; }
};

using ScriptedSenderOfMany = ScriptedFanIn<FanInSenderMemory>;
using ScriptedReceiverOfMany = ScriptedFanIn<FanInReceiverMemory>;
static_assert(FanInEnd<ScriptedSenderOfMany> && FanInEnd<ScriptedReceiverOfMany>);

}  // namespace verbena::rcud

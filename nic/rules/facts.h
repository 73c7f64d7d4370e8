// SPDX-License-Identifier: Apache-2.0
// Facts about calls of verbs, as the decorators of nic/verbs report them to the book.
//
// Threads: values.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <optional>
#include <span>

#include "nic/queues/work_request.h"
#include "nic/rules/call_site.h"

namespace verbena::rules {

// A pointer of the program's: ibv_cq *, ibv_mr * and so on.
using Handle = const void*;

enum class Kind : std::uint8_t { pd, mr, cq, channel, qp, srq, ah };
const char* name_of(Kind);

// The place of a call: the site, the frame pointer and the thread.
struct Caller {
	Site site = 0;
	std::uintptr_t frame = 0;
	pthread_t thread{};
};

struct RegionFacts {
	std::uint32_t lkey = 0, rkey = 0;
	std::uint64_t begin = 0, length = 0;
	unsigned access = 0;  // enum ibv_access_flags
};

struct QueuePairFacts {
	std::uint32_t qpn = 0;
	int type = 0;  // enum ibv_qp_type
	Handle device = nullptr;
	bool made_by_rdma_cm = false;
	Handle send_cq = nullptr, receive_cq = nullptr, srq = nullptr;  // srq may be null
	bool signal_all = false;
	std::uint32_t send_requests_max = 0, receives_max = 0;  // that the create function returned
	std::uint32_t inline_max = 0;
	std::uint32_t mtu = 0;  // the longest datagram of a UD queue pair, in bytes
};

// The attributes of an ibv_modify_qp(3) that has succeeded, as far as rules need them.
struct ChangeFacts {
	std::optional<int> state;  // enum ibv_qp_state
	std::optional<std::uint32_t> first_psn;  // sq_psn
	std::optional<std::uint32_t> q_key;
	bool waits_for_ever = false;  // timeout 0
	bool never_retries = false;  // retry_cnt 0
	// The GID of the chosen index is link-local, and the one of this index is not.
	std::optional<unsigned> routable_index;
};

struct SendFacts {
	std::uint64_t wr_id = 0;
	std::uint64_t remote_address = 0;
	std::uint32_t rkey = 0;
	Handle address_handle = nullptr;
	std::span<const queues::Segment> segments;
	queues::SendOpcode opcode{};
	std::uint8_t flags = 0;  // queues::SendFlags
};

struct ReceiveFacts {
	std::uint64_t wr_id = 0;
	std::span<const queues::Segment> segments;
};

}  // namespace verbena::rules

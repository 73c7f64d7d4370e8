// SPDX-License-Identifier: Apache-2.0
// A program's end of a queue pair: the queue pair with its own completion queues, and the posting
// functions of the verbs.
//
// Owns: both completion queues; the queue pair belongs to the host's adapter, and the destructor
//   destroys it.
// Lifetime: destroyed before its Host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nic/sim/fabric.h"
#include "nic/sim/host.h"

namespace verbena::sim {

class Endpoint;

// A send request, with the fields of ibv_send_wr that its opcode needs.
struct Work {
	queues::SendOpcode opcode = queues::SendOpcode::send;
	std::uint64_t wr_id = 0;
	std::vector<queues::Segment> segments;
	std::vector<std::byte> inline_data;  // instead of segments
	std::uint8_t flags = queues::send_signaled;
	std::uint32_t immediate = 0;  // immediate data, or the rkey to invalidate
	std::uint64_t remote_address = 0;
	std::uint32_t rkey = 0;
	std::uint64_t compare_or_add = 0;
	std::uint64_t swap = 0;
	const Endpoint* to = nullptr;  // for UD
	std::uint32_t q_key = 0;  // for UD
	struct {
		std::uint32_t window_key = 0, new_key = 0, region_key = 0;
		std::uint64_t address = 0, length = 0;
		std::uint8_t access = 0;
	} bind;
};

struct EndpointOptions {
	transport::QpType type = transport::QpType::rc;
	std::uint32_t send_entries = 64;
	std::uint32_t receive_entries = 64;
	std::uint16_t segments = 4;
	std::uint16_t inline_bytes = 64;
	std::uint32_t completions = 1024;  // entries of each completion queue
	std::uint32_t protection_domain = 1;
	bool signal_all = false;
	queues::ReceiveQueue* shared_receive_queue = nullptr;
};

class Endpoint {
public:
	explicit Endpoint(Host& host, const EndpointOptions& options = {});
	~Endpoint();
	Endpoint(const Endpoint&) = delete;
	Endpoint& operator=(const Endpoint&) = delete;

	Host& host;
	queues::CompletionQueue send_cq, receive_cq;
	transport::QueuePair& qp;

	// Posts a list of requests in one pass. False, and none is posted, if the queue lacks the room.
	bool post(const Work& work) { return post(std::span(&work, 1)); }
	bool post(std::span<const Work> works);
	bool post_receive(std::uint64_t wr_id, std::span<const queues::Segment> segments);
	bool post_receive(std::uint64_t wr_id, const queues::Segment& segment) {
		return post_receive(wr_id, std::span(&segment, 1));
	}

	bool modify(const adapter::QpChange& change);
	bool to_state(transport::QpState state) { return modify({.mask = transport::qp_state, .state = state}); }

	// Moves all completions from the completion queues to the ends of `sent` and `received`.
	void poll();
	std::vector<queues::Completion> sent, received;

	// True if every posted send has completed.
	bool quiet() const { return qp.sq_empty() && qp.una == qp.next_psn; }
};

struct ConnectionOptions {
	std::uint8_t path_mtu = 3;  // enum ibv_mtu: 1 = 256 ... 5 = 4096
	std::uint8_t timeout = 8;   // about 1 ms
	std::uint8_t retry_count = 7;
	std::uint8_t rnr_retry = 7;
	std::uint8_t min_rnr_timer = 1;  // 10 us
	std::uint8_t rd_atomic = 4;
	std::uint8_t access = memory::remote_write | memory::remote_read | memory::remote_atomic;
	std::uint32_t psn_a = 0x123456, psn_b = 0xabcdef;
};

// Moves both ends from reset to RTS, connected to each other.
void connect(Endpoint& a, Endpoint& b, const ConnectionOptions& options = {});
// Move one end to RTR, or from RTR to RTS, for scenarios in which the ends are not ready together.
void make_ready_to_receive(Endpoint& self, Endpoint& peer, const ConnectionOptions& options, std::uint32_t receive_psn);
void make_ready_to_send(Endpoint& self, const ConnectionOptions& options, std::uint32_t send_psn);
// Moves a UD queue pair to RTS.
void activate(Endpoint& datagrams, std::uint32_t q_key, std::uint8_t path_mtu = 5);

}  // namespace verbena::sim

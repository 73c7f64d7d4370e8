// SPDX-License-Identifier: Apache-2.0
// Work requests as they lie in send and receive queues.
//
// Opcodes and flags have the values of `enum ibv_wr_opcode` and `enum ibv_send_flags`.
//
// Threads: a poster writes an entry under its queue's lock; after it is published, only the adapter
//   touches it, under the engine's lock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::queues {

struct Segment {  // the layout of struct ibv_sge
	std::uint64_t address;
	std::uint32_t length;
	std::uint32_t lkey;
};

enum class SendOpcode : std::uint8_t {
	rdma_write = 0,
	rdma_write_imm = 1,
	send = 2,
	send_imm = 3,
	rdma_read = 4,
	compare_swap = 5,
	fetch_add = 6,
	local_invalidate = 7,
	bind_window = 8,
	send_invalidate = 9,
};

enum SendFlags : std::uint8_t { send_fence = 1, send_signaled = 2, send_solicited = 4, send_inline = 8 };

// The most segments of one request.
inline constexpr std::size_t segments_max = 32;

// An entry of a send queue. `segment_count` segments follow the entry, or the data itself if
// send_inline is set.
struct SendWqe {
	std::uint64_t wr_id;
	std::uint64_t first_psn;  // set when transmission begins
	std::uint32_t packets;  // PSNs that the request takes, set with first_psn; 0: a local operation
	std::uint32_t length;  // the message's bytes
	std::uint32_t immediate;  // in network byte order, or the R_Key to invalidate
	SendOpcode opcode;
	std::uint8_t flags;
	std::uint8_t segment_count;
	bool executed;  // a local operation that was executed and must not be repeated
	union {
		struct {
			std::uint64_t address;
			std::uint32_t rkey;
		} rdma;
		struct {
			std::uint64_t address;
			std::uint32_t rkey;
			std::uint32_t reserved;
			std::uint64_t compare_or_add;
			std::uint64_t swap;
		} atomic;
		struct {
			const void* outlet;  // the path's transport::Outlet; null: no path
			std::uint32_t qpn;
			std::uint32_t q_key;
			std::uint8_t address_index;  // in the link's table of address pairs
		} datagram;
		struct {
			std::uint64_t address;
			std::uint64_t length;
			std::uint32_t window_key;
			std::uint32_t new_key;
			std::uint32_t region_key;
			std::uint8_t access;
			bool any_qp;  // a type-1 window, which any QP of the domain may use
		} bind;
	};

	bool has(SendFlags flag) const { return flags & flag; }
	Segment* segments() { return reinterpret_cast<Segment*>(this + 1); }
	std::byte* inline_data() { return reinterpret_cast<std::byte*>(this + 1); }
	// True for a READ or an atomic, which a response completes.
	bool reads() const {
		return opcode == SendOpcode::rdma_read || opcode == SendOpcode::compare_swap || opcode == SendOpcode::fetch_add;
	}
	// True for an operation that sends no packet.
	bool local() const { return opcode == SendOpcode::local_invalidate || opcode == SendOpcode::bind_window; }
	std::uint64_t end_psn() const { return first_psn + packets; }
};
static_assert(sizeof(SendWqe) == 64);

// An entry of a receive queue; its segments follow it.
struct ReceiveWqe {
	std::uint64_t wr_id;
	std::uint32_t length;  // sum of the segments
	std::uint32_t segment_count;
	Segment* segments() { return reinterpret_cast<Segment*>(this + 1); }
};

}  // namespace verbena::queues

// SPDX-License-Identifier: Apache-2.0
// Completion queue entries (IBA 11.6.2).
//
// Statuses, opcodes and flags have the values of `enum ibv_wc_status`, `enum ibv_wc_opcode` and
// `enum ibv_wc_flags`.
#pragma once

#include <cstdint>

namespace verbena::queues {

enum class Status : std::uint8_t {
	success = 0,
	local_length = 1,
	local_qp_operation = 2,
	local_protection = 4,
	flushed = 5,
	window_bind = 6,
	bad_response = 7,
	local_access = 8,
	remote_invalid_request = 9,
	remote_access = 10,
	remote_operation = 11,
	retry_exceeded = 12,
	rnr_retry_exceeded = 13,
};

enum class Completed : std::uint8_t {
	send = 0,
	rdma_write = 1,
	rdma_read = 2,
	compare_swap = 3,
	fetch_add = 4,
	bind_window = 5,
	local_invalidate = 6,
	receive = 128,
	receive_rdma_with_imm = 129,
};

enum CompletionFlags : std::uint8_t { completion_grh = 1, completion_with_imm = 2, completion_with_invalidate = 8 };

struct Completion {
	std::uint64_t wr_id;
	std::uint32_t length;  // bytes; a datagram's includes its GRH
	std::uint32_t immediate;  // in network byte order, or the invalidated R_Key
	std::uint32_t qpn;
	std::uint32_t source_qp;  // receives only
	Status status;  // if not success, only wr_id, qpn, status and opcode are valid
	Completed opcode;
	std::uint8_t flags;
	std::uint8_t sl;
	std::uint32_t reserved;
};
static_assert(sizeof(Completion) == 32);

}  // namespace verbena::queues

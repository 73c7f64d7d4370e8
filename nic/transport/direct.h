// SPDX-License-Identifier: Apache-2.0
// Direct operations: RDMA WRITE, READ and atomics of RC to a process of the same host and user,
// which the requester executes itself in the memory of its peer (docs/decisions/0036). The peer
// makes no call.
//
// The requester finds its rights in the table that the peer publishes, and checks them as the
// responder would. Whatever is unusual (a right that is missing, memory that cannot be mapped, a
// fault) goes by the ring, so that every error and event comes from the one responder.
//
// A direct operation takes no PSN and completes at once, so one is executed only while the queue
// pair has nothing unacknowledged in the ring. So the order of operations is that of the ring.
//
// Threads: under the engine's lock.
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// Bytes that one call of transmit() moves directly. The rest follows in later passes, so that the
// engine's lock is not held for long.
inline constexpr std::uint32_t direct_bytes_max = 32 * 1024;

struct DirectResult {
	enum class Kind : std::uint8_t {
		by_ring,  // nothing was done, or it can be repeated: the request goes by the ring
		done,  // the whole request was executed
		partly,  // `direct_offset` has advanced, and no more bytes may be moved now
		failed,  // the request completes with `status`
	} kind;
	queues::Status status = queues::Status::success;
};

// Whether the request may be executed directly, as far as this side knows.
inline bool may_go_direct(const QueuePair& qp, const queues::SendWqe& wqe) {
	return qp.outlet->peer_memory && qp.message_offset == 0 && qp.type == QpType::rc &&
		(wqe.opcode == queues::SendOpcode::rdma_write || wqe.reads());
}

// Whether nothing of the queue pair is in the ring, so that the request at sq_next may be executed.
inline bool ring_is_idle(const QueuePair& qp) {
	return qp.una == qp.next_psn && qp.sq_tail.load(std::memory_order_relaxed) == qp.sq_next;
}

// The ring is not idle: whether the request at sq_next should wait until it is, and then be
// executed directly. That is so if the requests in the ring are of the same kind and under the same
// key, and went there because the peer's right came into being later. Other requests in the ring
// are not worth the wait.
bool should_await_ring(QueuePair&, const queues::SendWqe&);

// Executes the request at sq_next, or a part of it: at most `bytes_left`, from which it takes what
// it has moved. The caller has asked may_go_direct() and ring_is_idle().
DirectResult execute_direct(Context&, QueuePair&, queues::SendWqe&, std::uint32_t& bytes_left);

// Publishes what peers may do through the queue pair, or withdraws it, according to its state. To
// call after each change of its state, its attributes or its outlet.
void publish_rights(Context&, const QueuePair&);

}  // namespace verbena::transport

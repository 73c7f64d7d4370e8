// SPDX-License-Identifier: Apache-2.0
// The extended post of ibv_wr_post(3): ibv_wr_start, one call for each part of a request,
// ibv_wr_complete.
//
// Threads: ibv_wr_start takes the send queue's lock; ibv_wr_complete and ibv_wr_abort release it.
// Errors: requests are built in the send queue and become visible together. An error is kept until
//   ibv_wr_complete, which returns it and discards all requests since ibv_wr_start.
#include <cerrno>

#include "base/log.h"
#include "nic/memory/guarded_copy.h"
#include "nic/verbs/adverse_path.h"
#include "nic/verbs/checked_path.h"
#include "nic/verbs/fill_wqe.h"
#include "nic/verbs/objects.h"
#include "nic/verbs/ordered_path.h"
#include "nic/verbs/traced_path.h"

namespace verbena::verbs {
namespace {

using queues::SendOpcode;
using queues::SendWqe;
using transport::QpState;
using transport::QueuePair;

// The request that setters write to. Not after an error: then there is none.
SendWqe& current(SoftQp& sqp) { return *sqp.build.wqe; }

void start(ibv_qp_ex* public_qp) {
	SoftQp& sqp = SoftQp::of(public_qp);
	QueuePair& qp = *sqp.qp;
	qp.sq_lock.lock();
	sqp.build.head = qp.sq_head.load(std::memory_order_relaxed);
	sqp.build.wqe = nullptr;
	const QpState state = qp.state;
	sqp.build.error =
		state == QpState::rts || state == QpState::sqd || state == QpState::sqe || state == QpState::error ? 0 : EINVAL;
}

// Starts the next request. Null if the post has an error, now or before.
SendWqe* begin(ibv_qp_ex* public_qp, SendOpcode opcode) {
	SoftQp& sqp = SoftQp::of(public_qp);
	QueuePair& qp = *sqp.qp;
	auto& build = sqp.build;
	if (!(build.opcodes >> static_cast<int>(opcode) & 1)) build.error = build.error ? build.error : EINVAL;
	if (build.head - qp.sq_tail.load(std::memory_order_acquire) > qp.sq_mask)
		build.error = build.error ? build.error : ENOMEM;
	if (build.error) {
		build.wqe = nullptr;
		return nullptr;
	}
	SendWqe& wqe = qp.wqe(build.head++);
	build.wqe = &wqe;
	wqe.wr_id = public_qp->wr_id;
	wqe.opcode = opcode;
	wqe.flags = static_cast<std::uint8_t>(public_qp->wr_flags & ~static_cast<unsigned>(IBV_SEND_INLINE));
	wqe.segment_count = 0;
	wqe.length = 0;
	wqe.immediate = 0;
	wqe.executed = false;
	// Without ibv_wr_set_ud_addr the datagram is dropped.
	if (sqp.qp->type == transport::QpType::ud) wqe.datagram.outlet = nullptr;
	return &wqe;
}

void send(ibv_qp_ex* qp) { begin(qp, SendOpcode::send); }
void send_imm(ibv_qp_ex* qp, __be32 immediate) {
	if (SendWqe* wqe = begin(qp, SendOpcode::send_imm)) wqe->immediate = immediate;
}
void send_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
	if (SendWqe* wqe = begin(qp, SendOpcode::send_invalidate)) wqe->immediate = rkey;
}
void local_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
	if (SendWqe* wqe = begin(qp, SendOpcode::local_invalidate)) wqe->immediate = rkey;
}

void rdma(ibv_qp_ex* qp, SendOpcode opcode, std::uint32_t rkey, std::uint64_t address, __be32 immediate = 0) {
	SendWqe* wqe = begin(qp, opcode);
	if (!wqe) return;
	wqe->rdma.address = address;
	wqe->rdma.rkey = rkey;
	wqe->immediate = immediate;
}
void rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
	rdma(qp, SendOpcode::rdma_read, rkey, address);
}
void rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
	rdma(qp, SendOpcode::rdma_write, rkey, address);
}
void rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, __be32 immediate) {
	rdma(qp, SendOpcode::rdma_write_imm, rkey, address, immediate);
}

void atomic(ibv_qp_ex* qp, SendOpcode opcode, std::uint32_t rkey, std::uint64_t address, std::uint64_t compare_or_add,
	std::uint64_t swap) {
	SendWqe* wqe = begin(qp, opcode);
	if (!wqe) return;
	wqe->atomic.address = address;
	wqe->atomic.rkey = rkey;
	wqe->atomic.compare_or_add = compare_or_add;
	wqe->atomic.swap = swap;
}
void atomic_cmp_swp(
	ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t compare, std::uint64_t swap) {
	atomic(qp, SendOpcode::compare_swap, rkey, address, compare, swap);
}
void atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t add) {
	atomic(qp, SendOpcode::fetch_add, rkey, address, add, 0);
}

void bind(ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* info) {
	SoftQp& sqp = SoftQp::of(qp);
	if (!may_bind(sqp, *mw, *info)) sqp.build.error = sqp.build.error ? sqp.build.error : EINVAL;
	if (SendWqe* wqe = begin(qp, SendOpcode::bind_window)) fill_bind(*wqe, *mw, rkey, *info);
}

void set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t remote_qpn, std::uint32_t remote_qkey) {
	SoftQp& sqp = SoftQp::of(qp);
	if (!sqp.build.wqe) return;
	if (!SoftPd::same(ah->pd, sqp.base()->pd)) {
		sqp.build.error = EINVAL;
		return;
	}
	fill_datagram(sqp, current(sqp), SoftAh::of(ah), remote_qpn, remote_qkey);
}

void set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) {
	SoftQp& sqp = SoftQp::of(qp);
	if (!sqp.build.wqe) return;
	SendWqe& wqe = current(sqp);
	if (count > (wqe.opcode == SendOpcode::rdma_read ? sqp.read_segments_max : sqp.send_segments_max)) {
		sqp.build.error = EINVAL;
		return;
	}
	wqe.segment_count = static_cast<std::uint8_t>(count);
	std::uint64_t length = 0;
	for (std::size_t i = 0; i < count; ++i) {
		wqe.segments()[i] = {list[i].addr, list[i].length, list[i].lkey};
		length += list[i].length;
	}
	if (length > limits::message) sqp.build.error = EINVAL;
	wqe.length = static_cast<std::uint32_t>(length);
}
void set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) {
	const ibv_sge one{address, length, lkey};
	set_sge_list(qp, 1, &one);
}

void set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) {
	SoftQp& sqp = SoftQp::of(qp);
	if (!sqp.build.wqe) return;
	SendWqe& wqe = current(sqp);
	std::size_t length = 0;
	for (std::size_t i = 0; i < count; ++i) {
		if (list[i].length > sqp.inline_max - length) {
			sqp.build.error = ENOMEM;
			return;
		}
		if (!memory::guarded_copy(wqe.inline_data() + length, list[i].addr, list[i].length)) {
			sqp.build.error = EFAULT;
			return;
		}
		length += list[i].length;
	}
	wqe.flags |= queues::send_inline;
	wqe.length = static_cast<std::uint32_t>(length);
}
void set_inline_data(ibv_qp_ex* qp, void* address, std::size_t length) {
	const ibv_data_buf one{address, length};
	set_inline_data_list(qp, 1, &one);
}

int complete(ibv_qp_ex* public_qp) {
	SoftQp& sqp = SoftQp::of(public_qp);
	const int error = sqp.build.error;
	if (!error) sqp.qp->sq_head.store(sqp.build.head, std::memory_order_release);
	sqp.qp->sq_lock.unlock();
	if (!error) sqp.engine->post(*sqp.qp);
	else
		log::refuse(error, "ibv_wr_complete: %s",
			error == ENOMEM ? "the send queue is full, or the inline data longer than max_inline_data"
				: error == EFAULT
				? "the inline data cannot be read"
				: "the queue pair is not in RTS, or does not allow the opcode (under a checker or an adversary: "
				  "only those of send_ops_flags), the number of segments, the length, the address handle or the "
				  "window of a request");
	return error;
}

void abort_build(ibv_qp_ex* public_qp) { SoftQp::of(public_qp).qp->sq_lock.unlock(); }

}  // namespace

void fill_extended_post(SoftQp& sqp) {
	ibv_qp_ex& q = sqp.public_qp;
	q.wr_atomic_cmp_swp = atomic_cmp_swp;
	q.wr_atomic_fetch_add = atomic_fetch_add;
	q.wr_bind_mw = bind;
	q.wr_local_inv = local_inv;
	q.wr_rdma_read = rdma_read;
	q.wr_rdma_write = rdma_write;
	q.wr_rdma_write_imm = rdma_write_imm;
	q.wr_send = send;
	q.wr_send_imm = send_imm;
	q.wr_send_inv = send_inv;
	q.wr_set_ud_addr = set_ud_addr;
	q.wr_set_inline_data = set_inline_data;
	q.wr_set_inline_data_list = set_inline_data_list;
	q.wr_set_sge = set_sge;
	q.wr_set_sge_list = set_sge_list;
	q.wr_start = start;
	q.wr_complete = complete;
	q.wr_abort = abort_build;
	trace_extended_post(sqp);
	order_extended_post(sqp);
	adverse_extended_post(sqp);
	check_extended_post(sqp);
}

}  // namespace verbena::verbs

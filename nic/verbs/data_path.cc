// SPDX-License-Identifier: Apache-2.0
// Posting and polling: the functions that a program calls for each message. They allocate nothing,
// take the queue's lock, and only try the engine's. They make no system call of their own, except
// that a poller whose queue stays empty yields the processor.
#include <algorithm>
#include <cerrno>
#include <sched.h>

#include "base/log.h"
#include "nic/memory/guarded_copy.h"
#include "nic/verbs/fill_wqe.h"
#include "nic/verbs/objects.h"
#include "nic/verbs/provider.h"
#include "nic/verbs/refused_posts.h"

namespace verbena::verbs {

using queues::Segment;
using queues::SendOpcode;
using queues::SendWqe;
using transport::QpState;
using transport::QueuePair;

// Requests, segments and flags are copied, so their layouts and values must be those of verbs.h.
static_assert(sizeof(Segment) == sizeof(ibv_sge) && offsetof(Segment, lkey) == offsetof(ibv_sge, lkey));
static_assert(IBV_WR_SEND_WITH_INV == static_cast<int>(SendOpcode::send_invalidate) &&
	IBV_WR_BIND_MW == static_cast<int>(SendOpcode::bind_window));
static_assert(int{IBV_SEND_FENCE} == int{queues::send_fence} && int{IBV_SEND_INLINE} == int{queues::send_inline} &&
	int{IBV_SEND_SOLICITED} == int{queues::send_solicited});

namespace {

// Writes the gather list, or the inline bytes, into the WQE. Returns 0 or an errno value. The
// inline copy is guarded because the program's pointer may be bad.
int fill_segments(SoftQp& sqp, SendWqe& wqe, const ibv_send_wr& wr) {
	std::uint64_t length = 0;
	if (wr.send_flags & IBV_SEND_INLINE) {
		for (int i = 0; i < wr.num_sge; ++i) length += wr.sg_list[i].length;
		if (length > sqp.inline_max) return ENOMEM;
		std::byte* to = wqe.inline_data();
		for (int i = 0; i < wr.num_sge; ++i) {
			if (!memory::guarded_copy(to, reinterpret_cast<const void*>(wr.sg_list[i].addr), wr.sg_list[i].length))
				return EFAULT;
			to += wr.sg_list[i].length;
		}
	} else {
		for (int i = 0; i < wr.num_sge; ++i) {
			wqe.segments()[i] = {wr.sg_list[i].addr, wr.sg_list[i].length, wr.sg_list[i].lkey};
			length += wr.sg_list[i].length;
		}
	}
	if (length > limits::message) return EINVAL;
	wqe.length = static_cast<std::uint32_t>(length);
	return 0;
}

// Translates one request into a WQE of the send queue. Returns 0 or an errno value; the WQE counts
// only when the head has moved past it, so a failure may leave it half written.
int fill_wqe(SoftQp& sqp, SendWqe& wqe, const ibv_send_wr& wr) {
	if (static_cast<unsigned>(wr.opcode) > IBV_WR_SEND_WITH_INV || !(sqp.opcodes >> wr.opcode & 1)) [[unlikely]]
		return EINVAL;
	if (static_cast<unsigned>(wr.num_sge) > sqp.send_segments_max) [[unlikely]]
		return EINVAL;
	wqe.wr_id = wr.wr_id;
	wqe.opcode = static_cast<SendOpcode>(wr.opcode);
	wqe.flags = static_cast<std::uint8_t>(wr.send_flags);
	wqe.segment_count = static_cast<std::uint8_t>(wr.num_sge);
	wqe.immediate = wr.imm_data;
	wqe.executed = false;
	if (const int error = fill_segments(sqp, wqe, wr)) [[unlikely]]
		return error;
	if (sqp.qp->type == transport::QpType::ud) {
		if (!wr.wr.ud.ah || !SoftPd::same(wr.wr.ud.ah->pd, sqp.base()->pd)) return EINVAL;
		fill_datagram(sqp, wqe, SoftAh::of(wr.wr.ud.ah), wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey);
		return 0;
	}
	switch (wr.opcode) {
		case IBV_WR_SEND:
		case IBV_WR_SEND_WITH_IMM:
		case IBV_WR_SEND_WITH_INV: break;
		case IBV_WR_RDMA_READ:
			if ((wr.send_flags & IBV_SEND_INLINE) | (wr.num_sge > sqp.read_segments_max)) return EINVAL;
			[[fallthrough]];
		case IBV_WR_RDMA_WRITE:
		case IBV_WR_RDMA_WRITE_WITH_IMM:
			wqe.rdma.address = wr.wr.rdma.remote_addr;
			wqe.rdma.rkey = wr.wr.rdma.rkey;
			break;
		case IBV_WR_ATOMIC_CMP_AND_SWP:
		case IBV_WR_ATOMIC_FETCH_AND_ADD:
			if (wr.send_flags & IBV_SEND_INLINE) return EINVAL;
			wqe.atomic.address = wr.wr.atomic.remote_addr;
			wqe.atomic.rkey = wr.wr.atomic.rkey;
			wqe.atomic.compare_or_add = wr.wr.atomic.compare_add;
			wqe.atomic.swap = wr.wr.atomic.swap;
			break;
		case IBV_WR_LOCAL_INV: wqe.length = 0; break;
		case IBV_WR_BIND_MW:
			if (!may_bind(sqp, *wr.bind_mw.mw, wr.bind_mw.bind_info)) return EINVAL;
			fill_bind(wqe, *wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info);
			break;
		default: return EINVAL;
	}
	return 0;
}

// IBA 10.3.1: sends are refused before RTS. In the error states they are accepted and flushed.
bool may_post_sends(QpState state) {
	return state == QpState::rts || state == QpState::sqd || state == QpState::sqe || state == QpState::error;
}

// Puts a chain of receives into a queue. Returns 0 or an errno value with *bad at the request that
// failed; those before it are posted (ibv_post_recv(3)).
int fill_receives(queues::ReceiveQueue& queue, ibv_recv_wr* wr, ibv_recv_wr** bad) {
	std::uint32_t count = 0;
	int error = 0;
	for (; wr; wr = wr->next, ++count) {
		queues::ReceiveWqe* wqe = queue.prepare(count);
		if (!wqe || static_cast<unsigned>(wr->num_sge) > queue.segments_max()) [[unlikely]] {
			error = wqe ? EINVAL : ENOMEM;
			*bad = wr;
			break;
		}
		std::uint64_t length = 0;
		for (int i = 0; i < wr->num_sge; ++i) {
			wqe->segments()[i] = {wr->sg_list[i].addr, wr->sg_list[i].length, wr->sg_list[i].lkey};
			length += wr->sg_list[i].length;
		}
		wqe->wr_id = wr->wr_id;
		wqe->length = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, UINT32_MAX));
		wqe->segment_count = static_cast<std::uint32_t>(wr->num_sge);
	}
	queue.commit(count);
	return error;
}

}  // namespace

int post_send(ibv_qp* public_qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
	SoftQp& sqp = SoftQp::of(public_qp);
	QueuePair& qp = *sqp.qp;
	int error = 0;
	qp.sq_lock.lock();
	std::uint32_t head = qp.sq_head.load(std::memory_order_relaxed);
	if (!may_post_sends(qp.state)) [[unlikely]] {
		error = EINVAL;
	} else {
		for (; wr; wr = wr->next, ++head) {
			if (head - qp.sq_tail.load(std::memory_order_acquire) > qp.sq_mask) [[unlikely]]
				error = ENOMEM;
			else error = fill_wqe(sqp, qp.wqe(head), *wr);
			if (error) [[unlikely]]
				break;
		}
		// One store publishes the chain up to the first failure.
		qp.sq_head.store(head, std::memory_order_release);
	}
	if (error) *bad = wr;
	qp.sq_lock.unlock();
	sqp.engine->post(qp);
	if (error) [[unlikely]]
		return refuse_send(sqp, *bad, error);
	return 0;
}

int post_recv(ibv_qp* public_qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
	SoftQp& sqp = SoftQp::of(public_qp);
	QueuePair& qp = *sqp.qp;
	if (qp.state == QpState::reset || qp.receive_queue->shared) [[unlikely]] {
		*bad = wr;
		return log::refuse(EINVAL, "ibv_post_recv: the queue pair is in RESET, or has a shared receive queue");
	}
	qp.receive_queue->lock.lock();
	const int error = fill_receives(*qp.receive_queue, wr, bad);
	qp.receive_queue->lock.unlock();
	if (qp.state == QpState::error) [[unlikely]]
		sqp.engine->flush_receives(qp);
	if (error) [[unlikely]]
		return refuse_receive("ibv_post_recv", *qp.receive_queue, *bad, error);
	return 0;
}

int post_srq_recv(ibv_srq* public_srq, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
	SoftSrq& srq = SoftSrq::of(public_srq);
	srq.queue->lock.lock();
	const int error = fill_receives(*srq.queue, wr, bad);
	srq.queue->lock.unlock();
	if (error) [[unlikely]]
		return refuse_receive("ibv_post_srq_recv", *srq.queue, *bad, error);
	return 0;
}

int poll_cq(ibv_cq* public_cq, int count, ibv_wc* wc) noexcept {
	SoftCq& cq = SoftCq::of(public_cq);
	queues::CompletionQueue& queue = *cq.queue;
	const auto take = [wc](const queues::Completion& c, int i) {
		ibv_wc& w = wc[i];
		w.wr_id = c.wr_id;
		w.status = static_cast<ibv_wc_status>(c.status);
		w.opcode = static_cast<ibv_wc_opcode>(c.opcode);
		w.vendor_err = 0;
		w.byte_len = c.length;
		w.imm_data = c.immediate;
		w.qp_num = c.qpn;
		w.src_qp = c.source_qp;
		w.wc_flags = c.flags;
		w.pkey_index = 0;
		w.slid = 0;
		w.sl = c.sl;
		w.dlid_path_bits = 0;
	};
	queue.lock.lock();
	int taken = queue.drain(count, take);
	bool idle = false;
	if (taken == 0 && count > 0) {
		// An empty queue: drive the engine, which may bring a completion.
		idle = cq.engine->poll();
		taken = queue.drain(count, take);
	}
	queue.lock.unlock();
	// Not under the lock: a thread that waits for it would get the processor only while it cannot
	// get the lock.
	if (idle && taken == 0) [[unlikely]] {
		sched_yield();
		// Other threads may have had the processor for long and have brought completions. A program
		// that gets none may look next whether its peer has disconnected, and give up the requests
		// whose completions are in the queue.
		queue.lock.lock();
		taken = queue.drain(count, take);
		queue.lock.unlock();
	}
	return taken;
}

}  // namespace verbena::verbs

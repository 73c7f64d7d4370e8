// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/traced_path.h"

#include <atomic>
#include <cerrno>

#include "base/log.h"
#include "base/time.h"
#include "nic/observe/transport_trace.h"
#include "nic/trace/trace.h"
#include "nic/verbs/call_trace.h"
#include "nic/verbs/decorate.h"

namespace verbena::verbs {
namespace {

void write_post(const SoftQp& sqp, const ibv_send_wr& wr, Nanoseconds now, int error) {
	std::uint32_t length = 0;
	for (int i = 0; i < wr.num_sge; ++i) length += wr.sg_list[i].length;
	const bool datagram = sqp.qp->type == transport::QpType::ud;
	const bool atomic = wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	const bool rdma =
		!datagram && wr.opcode <= IBV_WR_RDMA_READ && wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_IMM;
	trace::write({.time = now,
		.kind = trace::Kind::posted_send,
		.code = static_cast<std::uint8_t>(wr.opcode),
		.status = static_cast<std::uint8_t>(error),
		.flags = static_cast<std::uint8_t>(wr.send_flags),
		.qpn = sqp.qp->qpn,
		.peer = datagram ? wr.wr.ud.remote_qpn : sqp.qp->destination_qpn,
		.id = wr.wr_id,
		.length = length,
		.count = static_cast<std::uint16_t>(wr.num_sge),
		.address = atomic ? wr.wr.atomic.remote_addr
			: rdma        ? wr.wr.rdma.remote_addr
						  : 0,
		.key = atomic ? wr.wr.atomic.rkey
			: rdma    ? wr.wr.rdma.rkey
					  : 0});
}

int traced_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
	const Nanoseconds now = monotonic_now();
	const int error = post_send(qp, wr, bad);
	const SoftQp& sqp = SoftQp::of(qp);
	const ibv_send_wr* const end = error ? *bad : nullptr;
	for (const ibv_send_wr* each = wr; each != end; each = each->next) write_post(sqp, *each, now, 0);
	if (end) write_post(sqp, *end, now, error);
	return error;
}

void write_receives(
	std::uint32_t qpn, const void* srq, const ibv_recv_wr* wr, const ibv_recv_wr* end, Nanoseconds now, int error) {
	const auto write = [&](const ibv_recv_wr& each, int failure) {
		std::uint32_t length = 0;
		for (int i = 0; i < each.num_sge; ++i) length += each.sg_list[i].length;
		trace::write({.time = now,
			.kind = trace::Kind::posted_receive,
			.status = static_cast<std::uint8_t>(failure),
			.qpn = qpn,
			.id = each.wr_id,
			.length = length,
			.count = static_cast<std::uint16_t>(each.num_sge),
			.address = reinterpret_cast<std::uintptr_t>(srq)});
	};
	for (const ibv_recv_wr* each = wr; each != end; each = each->next) write(*each, 0);
	if (end) write(*end, error);
}

int traced_post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
	const Nanoseconds now = monotonic_now();
	const int error = post_recv(qp, wr, bad);
	write_receives(qp->qp_num, nullptr, wr, error ? *bad : nullptr, now, error);
	return error;
}

int traced_post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
	const Nanoseconds now = monotonic_now();
	const int error = post_srq_recv(srq, wr, bad);
	write_receives(0, srq, wr, error ? *bad : nullptr, now, error);
	return error;
}

void write_poll(const ibv_wc& wc) {
	trace::write({.kind = trace::Kind::polled,
		.code = static_cast<std::uint8_t>(wc.opcode),
		.status = static_cast<std::uint8_t>(wc.status),
		.qpn = wc.qp_num,
		.peer = wc.src_qp,
		.id = wc.wr_id,
		.length = wc.byte_len});
}

int traced_poll_cq(ibv_cq* cq, int count, ibv_wc* wc) noexcept {
	const int taken = poll_cq(cq, count, wc);
	for (int i = 0; i < taken; ++i) write_poll(wc[i]);
	return taken;
}

int traced_req_notify_cq(ibv_cq* cq, int solicited_only) noexcept {
	CallText text("ibv_req_notify_cq");
	describe(text, cq);
	text.append(", solicited_only %d", solicited_only);
	text.end_part();
	text.begins();
	const int error = req_notify_cq(cq, solicited_only);
	text.append("%d", error);
	text.write(error);
	return error;
}

// The requests of an extended post, before ibv_wr_complete publishes them.
void write_build(SoftQp& sqp) {
	transport::QueuePair& qp = *sqp.qp;
	const Nanoseconds now = monotonic_now();
	const bool datagram = qp.type == transport::QpType::ud;
	for (std::uint32_t at = qp.sq_head.load(std::memory_order_relaxed); at != sqp.build.head; ++at) {
		const queues::SendWqe& wqe = qp.wqe(at);
		const bool remote = !datagram &&
			(wqe.reads() || wqe.opcode == queues::SendOpcode::rdma_write ||
				wqe.opcode == queues::SendOpcode::rdma_write_imm);
		trace::write({.time = now,
			.kind = trace::Kind::posted_send,
			.code = static_cast<std::uint8_t>(wqe.opcode),
			.status = static_cast<std::uint8_t>(sqp.build.error),
			.flags = wqe.flags,
			.qpn = qp.qpn,
			.peer = datagram ? wqe.datagram.qpn : qp.destination_qpn,
			.id = wqe.wr_id,
			.length = wqe.length,
			.count = wqe.segment_count,
			.address = remote ? wqe.rdma.address : 0,
			.key = remote ? wqe.rdma.rkey : 0,
			.number = at});
	}
}

// All objects have the same.
constinit ReplacedFunctions untraced{};

void write_current(ibv_cq_ex* public_cq) {
	const queues::Completion& c = SoftCq::of(public_cq).current;
	ibv_wc wc{};
	wc.wr_id = c.wr_id;
	wc.status = static_cast<ibv_wc_status>(c.status);
	wc.opcode = static_cast<ibv_wc_opcode>(c.opcode);
	wc.byte_len = c.length;
	wc.qp_num = c.qpn;
	wc.src_qp = c.source_qp;
	write_poll(wc);
}

void keep_reason(int error, std::string_view reason) {
	trace::write_text({.kind = trace::Kind::refusal, .number = static_cast<std::uint32_t>(error)}, reason);
}

}  // namespace

void begin_trace() noexcept {
	if (trace::begin()) log::keep_reason.store(keep_reason, std::memory_order_relaxed);
}

void trace_data_path(ibv_context_ops& ops) {
	if (!trace::on()) return;
	ops.post_send = traced_post_send;
	ops.post_recv = traced_post_recv;
	ops.post_srq_recv = traced_post_srq_recv;
	ops.poll_cq = traced_poll_cq;
	ops.req_notify_cq = traced_req_notify_cq;
}

void trace_extended_post(SoftQp& sqp) {
	if (!trace::on()) return;
	replace(untraced.complete_post, sqp.public_qp.wr_complete, [](ibv_qp_ex* qp) {
		write_build(SoftQp::of(qp));
		return untraced.complete_post.load(std::memory_order_relaxed)(qp);
	});
}

void trace_extended_poll(SoftCq& cq) {
	if (!trace::on()) return;
	replace(untraced.start_poll, cq.public_cq.start_poll, [](ibv_cq_ex* public_cq, ibv_poll_cq_attr* attributes) {
		const int error = untraced.start_poll.load(std::memory_order_relaxed)(public_cq, attributes);
		if (error == 0) write_current(public_cq);
		return error;
	});
	replace(untraced.next_poll, cq.public_cq.next_poll, [](ibv_cq_ex* public_cq) {
		const int error = untraced.next_poll.load(std::memory_order_relaxed)(public_cq);
		if (error == 0) write_current(public_cq);
		return error;
	});
}

void trace_transport(engine::Engine& engine) {
	if (!trace::on()) return;
	engine.control([](adapter::ChannelAdapter& adapter) {
		// Never destroyed, as the process's engine is not either.
		if (!adapter.context().observer) adapter.context().observer = new observe::TransportTrace(adapter);
	});
}

}  // namespace verbena::verbs

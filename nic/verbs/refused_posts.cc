// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/refused_posts.h"

#include <cerrno>

#include "base/log.h"
#include "nic/verbs/limits.h"

namespace verbena::verbs {
namespace {

constexpr const char* verb = "ibv_post_send";

// By opcode.
constexpr const char* names[] = {"RDMA WRITE", "RDMA WRITE with immediate data", "SEND", "SEND with immediate data",
	"RDMA READ", "atomics", "atomics", "local invalidate", "memory windows", "SEND with invalidate"};

int refuse_opcode_or_values(const SoftQp& sqp, const ibv_send_wr& wr) {
	const auto opcode = static_cast<unsigned>(wr.opcode);
	if (opcode <= IBV_WR_SEND_WITH_INV && !(sqp.opcodes >> opcode & 1) &&
		opcodes_of_transport(sqp.public_qp.qp_base.qp_type) >> opcode & 1)
		return refuse_by_profile(EINVAL, "%s: the device has no %s", verb, names[opcode]);
	if (opcode > IBV_WR_SEND_WITH_INV || !(sqp.opcodes >> opcode & 1))
		return log::refuse(EINVAL, "%s: opcode %u is not allowed on a queue pair of this type", verb, opcode);
	if (wr.opcode == IBV_WR_RDMA_READ && wr.num_sge > sqp.read_segments_max &&
		sqp.read_segments_max < sqp.send_segments_max)
		return refuse_by_profile(
			EINVAL, "%s: num_sge %d > %d of a READ, the device's max_sge_rd", verb, wr.num_sge, sqp.read_segments_max);
	if (static_cast<unsigned>(wr.num_sge) > sqp.send_segments_max)
		return log::refuse(EINVAL, "%s: num_sge %d is not in 0 to %d, the queue pair's max_send_sge", verb, wr.num_sge,
			sqp.send_segments_max);
	std::uint64_t length = 0;
	for (int i = 0; i < wr.num_sge; ++i) length += wr.sg_list[i].length;
	if (length > limits::message)
		return log::refuse(EINVAL, "%s: the message has %llu bytes, and %u are the limit", verb,
			static_cast<unsigned long long>(length), limits::message);
	if (sqp.qp->type == transport::QpType::ud)
		return log::refuse(EINVAL, "%s: wr.ud.ah is NULL or of another protection domain", verb);
	if (wr.opcode == IBV_WR_BIND_MW)
		return log::refuse(EINVAL, "%s: the window cannot be bound to this region or by this queue pair", verb);
	return log::refuse(EINVAL, "%s: IBV_SEND_INLINE is not allowed with READ and atomics", verb);
}

}  // namespace

int refuse_send(const SoftQp& sqp, const ibv_send_wr* wr, int error) {
	if (!log::wants_reasons() && !log::enabled(log::Level::warn)) return errno = error;
	if (error == EFAULT) return log::refuse(error, "%s: the inline data cannot be read", verb);
	if (error == ENOMEM && wr && wr->send_flags & IBV_SEND_INLINE) {
		std::uint64_t length = 0;
		for (int i = 0; i < wr->num_sge; ++i) length += wr->sg_list[i].length;
		if (length > sqp.inline_max)
			return log::refuse(error, "%s: %llu bytes of inline data are above the queue pair's max_inline_data %d",
				verb, static_cast<unsigned long long>(length), sqp.inline_max);
	}
	if (error == ENOMEM)
		return log::refuse(error,
			"%s: the send queue is full: all of its %u entries are in use, and %u completions in its completion queue "
			"are not polled; poll them (ibv_poll_cq(3)) before the next post, or create it with a larger max_send_wr",
			verb, sqp.qp->sq_mask + 1, sqp.qp->send_cq->unpolled());
	if (sqp.qp->state == transport::QpState::reset || sqp.qp->state == transport::QpState::init ||
		sqp.qp->state == transport::QpState::rtr || !wr)
		return log::refuse(error, "%s: the queue pair is not in RTS", verb);
	return refuse_opcode_or_values(sqp, *wr);
}

int refuse_receive(const char* verb, const queues::ReceiveQueue& queue, const ibv_recv_wr* wr, int error) {
	if (error == ENOMEM) return log::refuse(error, "%s: the queue is full, it has %u entries", verb, queue.capacity());
	return log::refuse(error, "%s: num_sge %d is not in 0 to %u, the queue's max_sge", verb, wr ? wr->num_sge : 0,
		queue.segments_max());
}

}  // namespace verbena::verbs

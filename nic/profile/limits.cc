// SPDX-License-Identifier: Apache-2.0
#include "nic/profile/limits.h"

#include <algorithm>

namespace verbena::profile {
namespace {

std::uint32_t figure(std::uint32_t wanted, std::uint32_t otherwise, std::uint32_t most) {
	return wanted == unknown ? otherwise : std::min(wanted, most);
}

bool has(Answer answer) { return answer != Answer::no; }

}  // namespace

Limits limits_of(const Profile& p) {
	const Profile& nic = own();
	constexpr std::uint32_t reads_most = 255;  // ibv_qp_attr has 8 bits for them
	return {.profile = &p == &nic ? std::string_view{} : p.name,
		.vendor_id = figure(p.vendor_id, nic.vendor_id, unknown),
		.vendor_part_id = figure(p.vendor_part_id, nic.vendor_part_id, unknown),
		.max_inline_data = figure(p.max_inline_data, nic.max_inline_data, inline_bytes_most),
		.grants = p.grants,
		.max_send_sge = figure(p.max_send_sge, nic.max_send_sge, segments_most),
		.max_recv_sge = figure(p.max_recv_sge, nic.max_recv_sge, segments_most),
		.max_sge_rd = figure(p.max_sge_rd, nic.max_sge_rd, segments_most),
		.max_qp_wr = figure(p.max_qp_wr, nic.max_qp_wr, work_requests_most),
		.max_cqe = figure(p.max_cqe, nic.max_cqe, completions_most),
		.depths = p.depths,
		.max_qp_rd_atom = figure(p.max_qp_rd_atom, nic.max_qp_rd_atom, reads_most),
		.max_qp_init_rd_atom = figure(p.max_qp_init_rd_atom, nic.max_qp_init_rd_atom, reads_most),
		.max_srq_wr = figure(p.max_srq_wr, nic.max_srq_wr, shared_receives_most),
		.max_srq_sge = figure(p.max_srq_sge, nic.max_srq_sge, segments_most),
		.max_msg_sz = figure(p.max_msg_sz, nic.max_msg_sz, message_most),
		.message_is_mtu = p.message_is_mtu == Answer::yes,
		.types = static_cast<std::uint8_t>(p.types | p.types_unknown),
		.srq = has(p.srq),
		.windows = has(p.windows),
		.paging = has(p.paging),
		.immediate = has(p.immediate),
		.resize_cq = has(p.resize_cq),
		.create_qp_ex = has(p.create_qp_ex),
		.create_cq_ex = has(p.create_cq_ex),
		.atomics = p.atomics == Atomics::unknown ? nic.atomics : p.atomics,
		.read_sink_needs_remote_write = p.read_sink_needs_remote_write == Answer::yes};
}

}  // namespace verbena::profile

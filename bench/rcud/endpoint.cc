// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/endpoint.h"

#include <algorithm>

namespace verbena::rcud {
namespace {

constexpr std::uint32_t reads_wanted = 16;

}  // namespace

Endpoint::Endpoint(const lib::OpenDevice& device_, const Cell& cell_, const Shape& shape_, Side role_,
	std::uint32_t inline_wanted, std::uint32_t qkey_, rdma_cm_id* connection)
	: Buffers(cell_, shape_, role_), device(device_), qkey(qkey_) {
	cq = take(lib::make_completion_queue(device.context.get(), static_cast<int>(send_depth + receive_count)));
	memory = take(lib::make_memory_region(device.domain.get(), memory_.data(), memory_.size(),
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
	auto made = take(lib::make_queue_pair(device, cq.get(),
		{.type = is_ud() ? IBV_QPT_UD : IBV_QPT_RC,
			.send_depth = send_depth,
			.receive_depth = receive_count,
			.send_sge_max = shape.fragments > 1 ? 2u : 1u,
			.inline_wanted = inline_wanted,
			.connection = connection}));
	qp = std::move(made.qp);
	inline_max = made.inline_max;
	if (is_ud()) take(lib::ud_start(qp.get(), device, qkey, psn));
	else if (connection == nullptr)
		take(lib::rc_to_init(qp.get(), device, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
}

Address Endpoint::address() const {
	return {.qpn = qp->qp_num,
		.psn = psn,
		.qkey = qkey,
		.lid = device.port.lid,
		.mtu = device.mtu_bytes(),
		.reads = std::clamp(static_cast<std::uint32_t>(device.attributes.max_qp_rd_atom), 1u, reads_wanted),
		.gid = lib::format_gid(device.choice.gid),
		.data = reinterpret_cast<std::uint64_t>(slot_at(0)),
		.data_rkey = memory->rkey,
		.credit_word = reinterpret_cast<std::uint64_t>(words)};
}

void Endpoint::connect(const Address& peer) {
	remote = peer;
	const lib::RemoteEnd end{.qpn = peer.qpn,
		.psn = peer.psn,
		.lid = static_cast<std::uint16_t>(peer.lid),
		.gid = take(lib::parse_gid(peer.gid))};
	if (is_ud()) {
		ah = take(lib::make_address_handle(device.domain.get(), lib::address_of(device, end)));
		return;
	}
	const auto initiator_max = static_cast<std::uint32_t>(std::max(device.attributes.max_qp_init_rd_atom, 1));
	take(lib::rc_connect(qp.get(), device, end,
		{.mtu_bytes = std::min(peer.mtu, device.mtu_bytes()),
			.local_psn = psn,
			.reads_as_target = static_cast<std::uint8_t>(address().reads),
			.reads_as_requester = static_cast<std::uint8_t>(std::min({peer.reads, initiator_max, reads_wanted}))}));
}

}  // namespace verbena::rcud

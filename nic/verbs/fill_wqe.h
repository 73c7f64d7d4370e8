// SPDX-License-Identifier: Apache-2.0
// The parts of a send WQE that both posting interfaces, ibv_post_send(3) and ibv_wr_post(3), fill
// in the same way.
//
// Threads: the caller holds the send queue's lock.
#pragma once

#include "nic/verbs/objects.h"

namespace verbena::verbs {

// The destination of a datagram. IBA chapter 10: a Q_Key with the high bit set stands for the queue
// pair's own.
[[gnu::always_inline]] inline void fill_datagram(
	SoftQp& sqp, queues::SendWqe& wqe, SoftAh& ah, std::uint32_t remote_qpn, std::uint32_t remote_q_key) {
	std::uint8_t index = 0;
	wqe.datagram.outlet = datagram_outlet(*sqp.engine, ah, remote_qpn, index);
	wqe.datagram.qpn = remote_qpn & 0xffffff;
	wqe.datagram.q_key = remote_q_key & 0x80000000 ? sqp.qp->q_key : remote_q_key;
	wqe.datagram.address_index = index;
}

// False if the window, its region and the queue pair are not all of one protection domain. A bind
// of length 0 invalidates the window and needs no region.
inline bool may_bind(SoftQp& sqp, const ibv_mw& mw, const ibv_mw_bind_info& info) {
	return SoftPd::same(mw.pd, sqp.base()->pd) && (!info.length || (info.mr && SoftPd::same(info.mr->pd, mw.pd)));
}

inline void fill_bind(queues::SendWqe& wqe, const ibv_mw& mw, std::uint32_t new_key, const ibv_mw_bind_info& info) {
	wqe.length = 0;
	wqe.bind.address = info.addr;
	wqe.bind.length = info.length;
	wqe.bind.window_key = mw.handle;
	wqe.bind.new_key = new_key;
	wqe.bind.region_key = info.mr ? info.mr->rkey : 0;
	wqe.bind.access = static_cast<std::uint8_t>(info.mw_access_flags & 0x3f);
	wqe.bind.any_qp = mw.type == IBV_MW_TYPE_1;
}

}  // namespace verbena::verbs

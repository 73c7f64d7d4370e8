// SPDX-License-Identifier: Apache-2.0
// The exports by which librdmacm converts the kernel's structs to those of verbs.h, and back. The
// kernel's struct of an attribute or path has the same members under the same names, in another
// order and with other widths.
#include <algorithm>

#include "nic/verbs/newer_verbs.h"

namespace {

// Assigns each member of this name, converting its width.
#define VERBENA_COPY(member) to->member = static_cast<decltype(to->member)>(from->member);

template <class To, class From> void copy_path(To* to, const From* from) {
	VERBENA_COPY(dlid)
	VERBENA_COPY(slid)
	VERBENA_COPY(raw_traffic)
	VERBENA_COPY(flow_label)
	VERBENA_COPY(reversible)
	VERBENA_COPY(mtu)
	VERBENA_COPY(pkey)
	VERBENA_COPY(hop_limit)
	VERBENA_COPY(traffic_class)
	VERBENA_COPY(numb_path)
	VERBENA_COPY(sl)
	VERBENA_COPY(mtu_selector)
	VERBENA_COPY(rate_selector)
	VERBENA_COPY(rate)
	VERBENA_COPY(packet_life_time_selector)
	VERBENA_COPY(packet_life_time)
	VERBENA_COPY(preference)
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

void ibv_copy_ah_attr_from_kern(ibv_ah_attr* to, ib_uverbs_ah_attr* from) {
	std::ranges::copy(from->grh.dgid, to->grh.dgid.raw);
	VERBENA_COPY(grh.flow_label)
	VERBENA_COPY(grh.sgid_index)
	VERBENA_COPY(grh.hop_limit)
	VERBENA_COPY(grh.traffic_class)
	VERBENA_COPY(dlid)
	VERBENA_COPY(sl)
	VERBENA_COPY(src_path_bits)
	VERBENA_COPY(static_rate)
	VERBENA_COPY(is_global)
	VERBENA_COPY(port_num)
}

// The member qp_state stays as it was: librdmacm sets it before the call.
void ibv_copy_qp_attr_from_kern(ibv_qp_attr* to, ib_uverbs_qp_attr* from) {
	VERBENA_COPY(cur_qp_state)
	VERBENA_COPY(path_mtu)
	VERBENA_COPY(path_mig_state)
	VERBENA_COPY(qkey)
	VERBENA_COPY(rq_psn)
	VERBENA_COPY(sq_psn)
	VERBENA_COPY(dest_qp_num)
	VERBENA_COPY(qp_access_flags)
	to->cap = {from->max_send_wr, from->max_recv_wr, from->max_send_sge, from->max_recv_sge, from->max_inline_data};
	ibv_copy_ah_attr_from_kern(&to->ah_attr, &from->ah_attr);
	ibv_copy_ah_attr_from_kern(&to->alt_ah_attr, &from->alt_ah_attr);
	VERBENA_COPY(pkey_index)
	VERBENA_COPY(alt_pkey_index)
	VERBENA_COPY(en_sqd_async_notify)
	VERBENA_COPY(sq_draining)
	VERBENA_COPY(max_rd_atomic)
	VERBENA_COPY(max_dest_rd_atomic)
	VERBENA_COPY(min_rnr_timer)
	VERBENA_COPY(port_num)
	VERBENA_COPY(timeout)
	VERBENA_COPY(retry_cnt)
	VERBENA_COPY(rnr_retry)
	VERBENA_COPY(alt_port_num)
	VERBENA_COPY(alt_timeout)
}

void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* to, ib_user_path_rec* from) {
	std::ranges::copy(from->dgid, to->dgid.raw);
	std::ranges::copy(from->sgid, to->sgid.raw);
	copy_path(to, from);
}

void ibv_copy_path_rec_to_kern(ib_user_path_rec* to, ibv_sa_path_rec* from) {
	std::ranges::copy(from->dgid.raw, to->dgid);
	std::ranges::copy(from->sgid.raw, to->sgid);
	copy_path(to, from);
}

#pragma GCC visibility pop
}

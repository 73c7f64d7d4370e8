// SPDX-License-Identifier: Apache-2.0
// Queue pairs: ibv_modify_qp(3).
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/log.h"
#include "nic/verbs/direct.h"
#include "nic/verbs/limits.h"
#include "nic/verbs/modify_reason.h"
#include "nic/verbs/process.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {

using transport::QpState;
using transport::QpType;
using transport::QueuePair;

static_assert(IBV_QP_DEST_QPN == static_cast<int>(transport::qp_destination_qpn) &&
	IBV_QP_RATE_LIMIT == static_cast<int>(transport::qp_rate_limit));

namespace {

transport::QueuePairAttributes attributes_from(const ibv_qp_attr& a, const std::uint8_t (&source_gid)[16]) {
	transport::QueuePairAttributes out;
	out.access = static_cast<std::uint8_t>(
		a.qp_access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC));
	out.path_mtu = static_cast<std::uint8_t>(a.path_mtu);
	out.timeout = a.timeout;
	out.retry_count = a.retry_cnt;
	out.rnr_retry = a.rnr_retry;
	out.min_rnr_timer = a.min_rnr_timer;
	out.max_rd_atomic = a.max_rd_atomic;
	out.max_dest_rd_atomic = a.max_dest_rd_atomic;
	out.q_key = a.qkey;
	out.pkey_index = a.pkey_index;
	std::memcpy(out.source_gid, source_gid, 16);
	std::memcpy(out.destination_gid, a.ah_attr.grh.dgid.raw, 16);
	return out;
}

// The port's MTU bounds the path's, except to a peer on this host: no packet passes the interface,
// and the peer may be on a device with a larger MTU, such as the loopback's.
bool path_mtu_allowed(const engine::Interface& interface, const ibv_qp_attr& a, int mask) {
	if (a.path_mtu < IBV_MTU_256 || a.path_mtu > IBV_MTU_4096) return false;
	return 128u << a.path_mtu <= engine::active_mtu(interface.mtu) ||
		((mask & IBV_QP_AV) && is_local_address(a.ah_attr.grh.dgid.raw));
}

// Checks the address `name`. Returns 0, or EINVAL and names the value.
int check_address(const engine::Interface& interface, const char* name, const ibv_ah_attr& address) {
	if (!address.is_global)
		return log::refuse(EINVAL, "ibv_modify_qp: %s.is_global is 0, but a RoCE address needs a GID", name);
	if (address.port_num != 1)
		return log::refuse(EINVAL, "ibv_modify_qp: %s.port_num %u is not 1", name, address.port_num);
	if (!engine::gid_at(interface.gids, address.grh.sgid_index))
		return log::refuse(EINVAL, "ibv_modify_qp: %s: sgid_index %d is not that of a GID of the device", name,
			address.grh.sgid_index);
	return 0;
}

// Checks the values of the attributes in `mask`; the adapter checks which attributes the transition
// allows. Returns 0, or EINVAL and names the value.
int check_values(const engine::Interface& interface, const ibv_qp_attr& a, int mask) {
	const auto wrong = [](const char* name, unsigned value, unsigned least, unsigned most) {
		return log::refuse(EINVAL, "ibv_modify_qp: %s %u is not in %u to %u", name, value, least, most);
	};
	if ((mask & IBV_QP_STATE) && (a.qp_state < IBV_QPS_RESET || a.qp_state > IBV_QPS_ERR))
		return wrong("qp_state", a.qp_state, IBV_QPS_RESET, IBV_QPS_ERR);
	if ((mask & IBV_QP_PORT) && a.port_num != 1) return wrong("port_num", a.port_num, 1, 1);
	if ((mask & IBV_QP_PKEY_INDEX) && a.pkey_index != 0) return wrong("pkey_index", a.pkey_index, 0, 0);
	if ((mask & IBV_QP_PATH_MTU) && !path_mtu_allowed(interface, a, mask))
		return log::refuse(EINVAL,
			"ibv_modify_qp: path_mtu %d (%u bytes) is not in 1 to the port's active_mtu, %u bytes",
			static_cast<int>(a.path_mtu), 128u << (a.path_mtu & 7),
			static_cast<unsigned>(engine::active_mtu(interface.mtu)));
	if (mask & IBV_QP_AV)
		if (const int error = check_address(interface, "ah_attr", a.ah_attr)) return error;
	if (mask & IBV_QP_ALT_PATH) {
		if (const int error = check_address(interface, "alt_ah_attr", a.alt_ah_attr)) return error;
		if (a.alt_port_num != 1) return wrong("alt_port_num", a.alt_port_num, 1, 1);
		if (a.alt_pkey_index != 0) return wrong("alt_pkey_index", a.alt_pkey_index, 0, 0);
		if (a.alt_timeout > 31) return wrong("alt_timeout", a.alt_timeout, 0, 31);
	}
	const profile::Limits& most = device_limits();
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && a.max_rd_atomic > most.max_qp_init_rd_atom)
		return refuse_figure("ibv_modify_qp", "max_rd_atomic", a.max_rd_atomic, most.max_qp_init_rd_atom);
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && a.max_dest_rd_atomic > most.max_qp_rd_atom)
		return refuse_figure("ibv_modify_qp", "max_dest_rd_atomic", a.max_dest_rd_atomic, most.max_qp_rd_atom);
	if ((mask & IBV_QP_TIMEOUT) && a.timeout > 31) return wrong("timeout", a.timeout, 0, 31);
	if ((mask & IBV_QP_RETRY_CNT) && a.retry_cnt > 7) return wrong("retry_cnt", a.retry_cnt, 0, 7);
	if ((mask & IBV_QP_RNR_RETRY) && a.rnr_retry > 7) return wrong("rnr_retry", a.rnr_retry, 0, 7);
	if ((mask & IBV_QP_MIN_RNR_TIMER) && a.min_rnr_timer > 31) return wrong("min_rnr_timer", a.min_rnr_timer, 0, 31);
	if ((mask & IBV_QP_DEST_QPN) && a.dest_qp_num > 0xffffff) return wrong("dest_qp_num", a.dest_qp_num, 0, 0xffffff);
	return 0;
}

// Logs why the adapter has refused the change; returns EINVAL.
int refuse_change(const QueuePair& qp, const ibv_qp_attr& a, int mask) {
	if (!log::wants_reasons()) return errno = EINVAL;
	if ((mask & IBV_QP_CUR_STATE) && static_cast<int>(a.cur_qp_state) != static_cast<int>(qp.state.load()))
		return log::refuse(EINVAL, "ibv_modify_qp: cur_qp_state %d is not the state of the queue pair, %d",
			static_cast<int>(a.cur_qp_state), static_cast<int>(qp.state.load()));
	const QpState to = mask & IBV_QP_STATE ? static_cast<QpState>(a.qp_state) : qp.state.load();
	return log::refuse(
		EINVAL, "ibv_modify_qp: %s", modify_reason(qp.type, qp.state, to, static_cast<std::uint32_t>(mask)).c_str());
}

// Keeps the attributes of `mask` for query_qp.
void remember(ibv_qp_attr& known, const ibv_qp_attr& a, int mask) {
	const auto keep = [&](int bit, auto ibv_qp_attr::* member) {
		if (mask & bit) known.*member = a.*member;
	};
	keep(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
	keep(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
	keep(IBV_QP_PORT, &ibv_qp_attr::port_num);
	keep(IBV_QP_QKEY, &ibv_qp_attr::qkey);
	keep(IBV_QP_AV, &ibv_qp_attr::ah_attr);
	keep(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
	keep(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
	keep(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
	keep(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
	keep(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
	keep(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
	keep(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_ah_attr);
	keep(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_pkey_index);
	keep(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_port_num);
	keep(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_timeout);
	keep(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
	keep(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
	keep(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
	keep(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
	known.rq_psn &= 0xffffff;
	known.sq_psn &= 0xffffff;
}

}  // namespace

int modify_qp(ibv_qp* public_qp, ibv_qp_attr* a, int mask) {
	SoftQp& sqp = SoftQp::of(public_qp);
	if (SoftContext::of(public_qp->context).dead)
		return log::refuse(EIO, "ibv_modify_qp: the device was opened before fork(), by the parent");
	const auto interface = SoftContext::of(public_qp->context).device().interface();
	if (const int error = check_values(*interface, *a, mask)) return error;
	std::uint8_t source_gid[16] = {};
	transport::Outlet* outlet = nullptr;
	// The outlet stays valid while this count does not change; see Engine::links_retired().
	const std::uint32_t links_retired = sqp.engine->links_retired();
	if (mask & IBV_QP_AV) {
		std::memcpy(source_gid, interface->gids[a->ah_attr.grh.sgid_index].data(), 16);
		if (public_qp->qp_type != IBV_QPT_UD) {
			wire::AddressPair pair{};
			std::memcpy(pair.source, source_gid, 16);
			std::memcpy(pair.destination, a->ah_attr.grh.dgid.raw, 16);
			pair.traffic_class = a->ah_attr.grh.traffic_class;
			pair.hop_limit = a->ah_attr.grh.hop_limit ? a->ah_attr.grh.hop_limit : 64;
			pair.flow_label = a->ah_attr.grh.flow_label & 0xfffff;
			const std::uint32_t destination = mask & IBV_QP_DEST_QPN ? a->dest_qp_num : sqp.attributes.dest_qp_num;
			auto path = sqp.engine->outlet_to(pair, is_local_address(a->ah_attr.grh.dgid.raw), {destination}, true);
			if (!path)
				return log::refuse(path.error(), "ibv_modify_qp: no path to the peer: %s", strerror(path.error()));
			outlet = *path;
		}
	}
	if (public_qp->qp_type == IBV_QPT_UD && (mask & IBV_QP_STATE) && a->qp_state == IBV_QPS_RTR)
		if (const auto listening = sqp.engine->listen_udp(); !listening)
			return log::refuse(listening.error(), "ibv_modify_qp: datagrams of other hosts cannot be received: %s",
				strerror(listening.error()));
	const adapter::QpChange change{.mask = static_cast<std::uint32_t>(mask),
		.state = static_cast<QpState>(a->qp_state),
		.current_state = static_cast<QpState>(a->cur_qp_state),
		.attributes = attributes_from(*a, source_gid),
		.receive_psn = a->rq_psn & 0xffffff,
		.send_psn = a->sq_psn & 0xffffff,
		.destination_qpn = a->dest_qp_num & 0xffffff,
		.outlet = outlet,
		.sqd_notify = a->en_sqd_async_notify != 0};
	QueuePair& qp = *sqp.qp;
	bool took_requests = false;
	// Posters read the state and the outlet under the send queue's lock.
	const int error = [&] {
		const std::lock_guard lock(qp.sq_lock);
		return sqp.engine->control([&](adapter::ChannelAdapter& adapter) {
			if (outlet && sqp.engine->links_retired() != links_retired) return EAGAIN;
			took_requests = qp.type == QpType::rc && qp.state >= QpState::rtr;
			if (!adapter.modify_qp(qp, change)) return EINVAL;
			if (outlet && qp.type == QpType::rc) sqp.engine->begin_use(*outlet, {qp.qpn}, {qp.destination_qpn});
			return 0;
		});
	}();
	// A peer has died since the path was found, and it may have been the destination: find it
	// again.
	if (error == EAGAIN) return modify_qp(public_qp, a, mask);
	if (error) return refuse_change(qp, *a, mask);
	if (took_requests && ((mask & IBV_QP_ACCESS_FLAGS) || ((mask & IBV_QP_STATE) && a->qp_state != IBV_QPS_RTS)))
		await_peers_of_queue_pair(*sqp.engine, qp.qpn);
	remember(sqp.attributes, *a, mask);
	if (mask & IBV_QP_STATE) {
		public_qp->state = a->qp_state;
		if (a->qp_state == IBV_QPS_RESET) {
			purge_completions(sqp);
			sqp.attributes = {};
			sqp.attributes.path_mig_state = IBV_MIG_MIGRATED;
		}
	}
	return 0;
}

}  // namespace verbena::verbs

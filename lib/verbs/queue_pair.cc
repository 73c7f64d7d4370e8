// SPDX-License-Identifier: Apache-2.0
#include "lib/verbs/queue_pair.h"

#include <algorithm>

#include "base/random.h"

namespace verbena::lib {
namespace {

Done step(ibv_qp* qp, ibv_qp_attr attributes, int mask, const char* what) {
	const int error = ibv_modify_qp(qp, &attributes, mask);
	if (error != 0) return std::unexpected(failure(what, error));
	return {};
}

}  // namespace

std::expected<MadeQueuePair, std::string> make_queue_pair(
	const OpenDevice& device, ibv_cq* cq, const QueuePairOptions& options) {
	ibv_qp_init_attr attributes{
		.send_cq = cq,
		.recv_cq = cq,
		.srq = options.shared_receives,
		.cap = {.max_send_wr = options.send_depth,
			.max_recv_wr = options.receive_depth,
			.max_send_sge = options.send_sge_max,
			.max_recv_sge = 1,
			.max_inline_data = options.inline_wanted},
		.qp_type = options.type,
		.sq_sig_all = options.signal_all ? 1 : 0,
	};
	const auto create = [&] {
		if (options.connection == nullptr) return ibv_create_qp(device.domain.get(), &attributes);
		return rdma_create_qp(options.connection, device.domain.get(), &attributes) == 0 ? options.connection->qp
																						 : nullptr;
	};
	ibv_qp* qp = create();
	if (qp == nullptr && options.inline_wanted > 0) {
		attributes.cap = {.max_send_wr = options.send_depth,
			.max_recv_wr = options.receive_depth,
			.max_send_sge = options.send_sge_max,
			.max_recv_sge = 1};
		qp = create();
	}
	if (qp == nullptr)
		return std::unexpected(failure(options.connection == nullptr ? "ibv_create_qp" : "rdma_create_qp", errno));
	return MadeQueuePair{
		.qp = QueuePair(qp, {.connection = options.connection}), .inline_max = attributes.cap.max_inline_data};
}

Done rc_to_init(ibv_qp* qp, const OpenDevice& device, int remote_access) {
	ibv_qp_attr init{.qp_state = IBV_QPS_INIT, .qp_access_flags = static_cast<unsigned>(remote_access)};
	init.port_num = device.choice.port;
	return step(
		qp, init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "ibv_modify_qp to INIT");
}

Done rc_connect(ibv_qp* qp, const OpenDevice& device, const RemoteEnd& remote, const RcPath& path) {
	ibv_qp_attr rtr{.qp_state = IBV_QPS_RTR, .path_mtu = mtu_enum(path.mtu_bytes)};
	rtr.rq_psn = remote.psn;
	rtr.dest_qp_num = remote.qpn;
	rtr.ah_attr = address_of(device, remote);
	rtr.max_dest_rd_atomic = path.reads_as_target;
	rtr.min_rnr_timer = rnr_timer;
	const auto ready = step(qp, rtr,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			IBV_QP_MIN_RNR_TIMER,
		"ibv_modify_qp to RTR");
	if (!ready) return ready;

	ibv_qp_attr rts{.qp_state = IBV_QPS_RTS};
	rts.sq_psn = path.local_psn;
	rts.timeout = 14;    // 4.096 us * 2^14 = 67 ms
	// Soft-RoCE takes 7 as "without limit" here too, and then never notices a peer that has died.
	rts.retry_cnt = 6;
	rts.rnr_retry = 7;   // no limit: a slow receiver is backpressure, not an error
	rts.max_rd_atomic = path.reads_as_requester;
	return step(qp, rts,
		IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
		"ibv_modify_qp to RTS");
}

// A queue pair that cannot be modified is in error already.
void to_error(ibv_qp* qp) { (void)step(qp, {.qp_state = IBV_QPS_ERR}, IBV_QP_STATE, "ibv_modify_qp to ERR"); }

Done ud_start(ibv_qp* qp, const OpenDevice& device, std::uint32_t qkey, std::uint32_t local_psn) {
	ibv_qp_attr attributes{.qp_state = IBV_QPS_INIT, .qkey = qkey};
	attributes.port_num = device.choice.port;
	if (auto done =
			step(qp, attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, "ibv_modify_qp to INIT");
		!done)
		return done;
	attributes.qp_state = IBV_QPS_RTR;
	if (auto done = step(qp, attributes, IBV_QP_STATE, "ibv_modify_qp to RTR"); !done) return done;
	attributes.qp_state = IBV_QPS_RTS;
	attributes.sq_psn = local_psn;
	return step(qp, attributes, IBV_QP_STATE | IBV_QP_SQ_PSN, "ibv_modify_qp to RTS");
}

ibv_ah_attr address_of(const OpenDevice& device, const RemoteEnd& remote) {
	ibv_ah_attr address{};
	address.dlid = remote.lid;
	address.port_num = device.choice.port;
	address.is_global = 1;
	address.grh.dgid = remote.gid;
	address.grh.sgid_index = static_cast<std::uint8_t>(device.choice.gid_index);
	address.grh.hop_limit = 64;
	return address;
}

std::uint32_t random_psn() { return secure_random<std::uint32_t>() & 0xffffff; }

ibv_mtu mtu_enum(std::uint32_t bytes) {
	int mtu = IBV_MTU_256;
	while (mtu < IBV_MTU_4096 && 256u << mtu <= bytes) ++mtu;
	return static_cast<ibv_mtu>(mtu);
}

}  // namespace verbena::lib

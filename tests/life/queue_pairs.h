// SPDX-License-Identifier: Apache-2.0
// Queue pairs on the loopback device, for the C++ programs of these tests. A call that fails ends
// the program with a message.
//
// Threads: any, after open_loopback().
#pragma once

#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

inline void demand(bool good, const char* what) {
	if (good) return;
	std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
	_exit(1);
}

inline ibv_context* open_loopback() {
	ibv_device** devices = ibv_get_device_list(nullptr);
	demand(devices, "get_device_list");
	ibv_context* context = nullptr;
	for (ibv_device** at = devices; *at && !context; ++at)
		if (std::strcmp(ibv_get_device_name(*at), "vb_lo") == 0) context = ibv_open_device(*at);
	demand(context, "open_device");
	ibv_free_device_list(devices);
	return context;
}

// A reliable queue pair in the state INIT, which peers may write to.
inline ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr init) {
	init.qp_type = IBV_QPT_RC;
	ibv_qp* qp = ibv_create_qp(pd, &init);
	demand(qp, "create_qp");
	ibv_qp_attr a{.qp_state = IBV_QPS_INIT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE, .port_num = 1};
	demand(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "to init");
	return qp;
}

// Connects it with the queue pair `destination` of this host.
inline void connect(ibv_qp* qp, std::uint32_t destination, std::uint32_t first_psn = 0) {
	ibv_gid gid;
	demand(!ibv_query_gid(qp->context, 1, 0, &gid), "query_gid");
	ibv_qp_attr a{.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = destination};
	a.ah_attr = {.grh = {.dgid = gid, .hop_limit = 1}, .is_global = 1, .port_num = 1};
	a.rq_psn = a.sq_psn = first_psn;
	a.max_dest_rd_atomic = a.min_rnr_timer = 1;
	const int path = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	demand(!ibv_modify_qp(qp, &a, path | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "to rtr");
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	const int limits = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	demand(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | limits), "to rts");
}

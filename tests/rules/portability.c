// SPDX-License-Identifier: Apache-2.0
// The programs of the rules about portability and security.
#include "programs.h"

static void access_write_without_local(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_mr *mr =
		ibv_reg_mr(pair.pd, pair.memory, 64, IBV_ACCESS_REMOTE_WRITE | (fixed ? IBV_ACCESS_LOCAL_WRITE : 0));
	MUST((mr != NULL) == fixed);
	if (mr) ibv_dereg_mr(mr);
	end_pair(&pair);
}

static void no_grh(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	MUST(to_init(pair.a.qp) == 0);
	struct ibv_qp_attr rtr = rtr_to(&pair, pair.b.qp->qp_num, 1);
	rtr.ah_attr.is_global = fixed;
	MUST((ibv_modify_qp(pair.a.qp, &rtr, rtr_mask) == 0) == fixed);
	end_pair(&pair);
}

static void mtu_not_negotiated(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	connect_with(&pair, fixed ? IBV_MTU_1024 : IBV_MTU_512, 4);
	end_pair(&pair);
}

static void comp_vector(bool fixed) {
	struct ibv_context *context = open_device();
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, fixed ? 0 : context->num_comp_vectors);
	MUST((cq != NULL) == fixed);
	if (cq) ibv_destroy_cq(cq);
	ibv_close_device(context);
}

// No device has room for 64 KiB of inline data.
static void cap_over_profile(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .send_cq = pair.a.cq, .recv_cq = pair.a.cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 65536}};
	MUST(!ibv_create_qp(pair.pd, &init));
	if (fixed) {
		init.cap.max_inline_data = 0;
		struct ibv_qp *qp = ibv_create_qp(pair.pd, &init);
		MUST(qp && ibv_destroy_qp(qp) == 0);
	}
	end_pair(&pair);
}

static bool is_link_local(const union ibv_gid *gid) { return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80; }

// Needs a device with a link-local GID and a routable one.
static void gid_index_0(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	union ibv_gid gid;
	for (pair.gid_index = 0; pair.gid_index < 16; ++pair.gid_index)
		if (ibv_query_gid(pair.context, 1, pair.gid_index, &gid) == 0 && (gid.raw[0] || gid.raw[11]) &&
			is_link_local(&gid) != fixed)
			break;
	MUST(pair.gid_index < 16);
	MUST(to_init(pair.a.qp) == 0);
	struct ibv_qp_attr rtr = rtr_to(&pair, pair.b.qp->qp_num, 1);
	rtr.ah_attr.grh.dgid = gid;
	MUST(ibv_modify_qp(pair.a.qp, &rtr, rtr_mask) == 0);
	end_pair(&pair);
}

static void reset_to_reset(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	if (!fixed) MUST(ibv_modify_qp(pair.a.qp, &reset, IBV_QP_STATE) == 0);
	end_pair(&pair);
}

static void timeout_zero(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	MUST(to_init(pair.a.qp) == 0);
	struct ibv_qp_attr rtr = rtr_to(&pair, pair.b.qp->qp_num, 1);
	MUST(ibv_modify_qp(pair.a.qp, &rtr, rtr_mask) == 0 && to_rts(pair.a.qp, 1, fixed ? 14 : 0) == 0);
	end_pair(&pair);
}

static void max_msg_implicit(bool fixed) {
	const struct shape shape = ud();
	struct pair pair = make_pair(&shape);
	struct ibv_ah *ah = address_of(&pair);
	MUST(receive_at(&pair, pair.b.qp, 1, 0, 8192) == 0);
	const int error = post(pair.a.qp, datagram(&pair, ah, fixed ? 64 : 70000));
	if (!error) await(pair.a.cq);
	MUST(ibv_destroy_ah(ah) == 0);
	end_pair(&pair);
}

static void port_num_constant(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = fixed ? 1 : 2};
	const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	MUST((ibv_modify_qp(pair.a.qp, &init, mask) == 0) == fixed);
	end_pair(&pair);
}

static void feature_unqueried(bool fixed) {
	asks_device = fixed;
	struct pair pair = make_pair(&usual);
	MUST(post(pair.a.qp, request(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_SEND_SIGNALED, 0, 8, 8192)) == 0);
	MUST(await(pair.a.cq) == IBV_WC_SUCCESS);
	end_pair(&pair);
}

// The pair's region has the right to atomics.
static void access_atomic_unneeded(bool fixed) {
	asks_device = fixed;
	struct pair pair = make_pair(&usual);
	end_pair(&pair);
}

// Needs a device of iWARP.
static void iwarp_read_sink(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_mr *sink = ibv_reg_mr(
		pair.pd, pair.memory, 4096, IBV_ACCESS_LOCAL_WRITE | (fixed ? IBV_ACCESS_REMOTE_WRITE : 0));
	MUST(sink);
	struct ibv_send_wr *wr = request(&pair, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, 64, 8192);
	wr->sg_list->lkey = sink->lkey;
	MUST(post(pair.a.qp, wr) == 0);
	MUST((await(pair.a.cq) == IBV_WC_SUCCESS) == fixed);
	MUST(ibv_dereg_mr(sink) == 0);
	end_pair(&pair);
}

static void qp_ex_without_fallback(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_RC, .send_cq = pair.a.cq, .recv_cq = pair.a.cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = pair.pd,
		.send_ops_flags = IBV_QP_EX_WITH_TSO};
	MUST(!ibv_create_qp_ex(pair.context, &init) && errno == EOPNOTSUPP);
	if (fixed) {
		struct ibv_qp_init_attr plain = {
			.qp_type = IBV_QPT_RC, .send_cq = pair.a.cq, .recv_cq = pair.a.cq, .cap = init.cap};
		struct ibv_qp *qp = ibv_create_qp(pair.pd, &plain);
		MUST(qp && ibv_destroy_qp(qp) == 0);
	}
	end_pair(&pair);
}

static void psn_constant(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	for (int i = 0; i < 2; ++i) {
		struct end *end = i ? &pair.b : &pair.a;
		MUST(to_init(end->qp) == 0);
		struct ibv_qp_attr rtr = rtr_to(&pair, (i ? &pair.a : &pair.b)->qp->qp_num, 1);
		MUST(ibv_modify_qp(end->qp, &rtr, rtr_mask) == 0 && to_rts(end->qp, fixed ? 100 + 7919 * i : 0, 14) == 0);
	}
	end_pair(&pair);
}

static void qkey_constant(bool fixed) {
	const struct shape shape = ud();
	struct pair pair = make_unconnected(&shape);
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = fixed ? 0x31415926 : 0x11111111};
	MUST(ibv_modify_qp(pair.a.qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	end_pair(&pair);
}

static void rkey_whole_memory(bool fixed) {
	struct pair pair = make_pair(&usual);
	const size_t size = (size_t)2 << 30;
	char *large = malloc(size);
	MUST(large);
	struct ibv_mr *mr = ibv_reg_mr(
		pair.pd, large, fixed ? 1 << 20 : size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	MUST(mr && ibv_dereg_mr(mr) == 0);
	free(large);
	end_pair(&pair);
}

const struct program portability[] = {
	PROGRAM(access_write_without_local), PROGRAM(no_grh), PROGRAM(mtu_not_negotiated),
	PROGRAM(comp_vector), PROGRAM(cap_over_profile), PROGRAM(gid_index_0), PROGRAM(reset_to_reset),
	PROGRAM(timeout_zero), PROGRAM(max_msg_implicit), PROGRAM(port_num_constant),
	PROGRAM(feature_unqueried), PROGRAM(access_atomic_unneeded), PROGRAM(iwarp_read_sink),
	PROGRAM(qp_ex_without_fallback), PROGRAM(psn_constant), PROGRAM(qkey_constant),
	PROGRAM(rkey_whole_memory),
	{0},
};

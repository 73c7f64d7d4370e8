// SPDX-License-Identifier: Apache-2.0
// An RC ping-pong between two queue pairs of one process that is not linked with libibverbs:
//
//     pingpong LIBRARY_NAME dlsym|dlvsym
//
// Each message carries its number in every word, and the receiver checks all of them.
#include "by_name.h"

#include <stdint.h>
#include <string.h>

enum { ROUNDS = 1000, WORDS = 256, SIZE = WORDS * sizeof(uint32_t) };

static struct verbs verbs;

struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint32_t sent[WORDS], received[WORDS];
};

static void require(int success, const char *what)
{
	if (!success) fail("failed:", what);
}

static void make_side(struct side *side, struct ibv_context *context, struct ibv_pd *pd)
{
	require((side->cq = verbs.ibv_create_cq(context, 16, NULL, NULL, 0)) != NULL, "ibv_create_cq");
	struct ibv_qp_init_attr attr = {
	        .send_cq = side->cq,
	        .recv_cq = side->cq,
	        .qp_type = IBV_QPT_RC,
	        .sq_sig_all = 1,
	        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	require((side->qp = verbs.ibv_create_qp(pd, &attr)) != NULL, "ibv_create_qp");
	side->mr = verbs.ibv_reg_mr(pd, side, sizeof *side, IBV_ACCESS_LOCAL_WRITE);
	require(side->mr != NULL, "ibv_reg_mr");
}

static void connect_to(struct side *side, const struct side *peer, union ibv_gid gid)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	require(verbs.ibv_modify_qp(side->qp, &init,
	                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
	        "INIT");
	struct ibv_qp_attr rtr = {
	        .qp_state = IBV_QPS_RTR,
	        .path_mtu = IBV_MTU_1024,
	        .dest_qp_num = peer->qp->qp_num,
	        .max_dest_rd_atomic = 1,
	        .min_rnr_timer = 12,
	        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}}};
	require(verbs.ibv_modify_qp(side->qp, &rtr,
	                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
	        "RTR");
	struct ibv_qp_attr rts = {
	        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	require(verbs.ibv_modify_qp(side->qp, &rts,
	                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	                                    IBV_QP_MAX_QP_RD_ATOMIC) == 0,
	        "RTS");
}

static void complete(struct side *side)
{
	struct ibv_wc wc;
	int count;
	do count = ibv_poll_cq(side->cq, 1, &wc);
	while (count == 0);
	require(count == 1, "ibv_poll_cq");
	require(wc.status == IBV_WC_SUCCESS, verbs.ibv_wc_status_str(wc.status));
}

static void deliver(struct side *from, struct side *to, uint32_t number)
{
	for (int i = 0; i < WORDS; ++i) from->sent[i] = number;
	struct ibv_sge into = {.addr = (uintptr_t)to->received, .length = SIZE, .lkey = to->mr->lkey};
	struct ibv_recv_wr receive = {.sg_list = &into, .num_sge = 1}, *bad_receive;
	require(ibv_post_recv(to->qp, &receive, &bad_receive) == 0, "ibv_post_recv");
	struct ibv_sge out = {.addr = (uintptr_t)from->sent, .length = SIZE, .lkey = from->mr->lkey};
	struct ibv_send_wr send = {.sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;
	require(ibv_post_send(from->qp, &send, &bad_send) == 0, "ibv_post_send");
	complete(from);
	complete(to);
	for (int i = 0; i < WORDS; ++i) require(to->received[i] == number, "wrong data");
}

int main(int argc, char **argv)
{
	if (argc != 3) return 2;
	verbs = find_verbs(open_library(argv[1]), strcmp(argv[2], "dlvsym") == 0);

	int count;
	struct ibv_device **list = verbs.ibv_get_device_list(&count);
	require(list && count > 0, "ibv_get_device_list");
	struct ibv_context *context = verbs.ibv_open_device(list[0]);
	require(context != NULL, "ibv_open_device");
	struct ibv_pd *pd = verbs.ibv_alloc_pd(context);
	require(pd != NULL, "ibv_alloc_pd");
	union ibv_gid gid;
	require(verbs.ibv_query_gid(context, 1, 0, &gid) == 0, "ibv_query_gid");

	static struct side a, b;
	make_side(&a, context, pd);
	make_side(&b, context, pd);
	connect_to(&a, &b, gid);
	connect_to(&b, &a, gid);
	for (uint32_t round = 0; round < ROUNDS; ++round) {
		deliver(&a, &b, 2 * round);
		deliver(&b, &a, 2 * round + 1);
	}

	for (struct side *side = &a; side; side = side == &a ? &b : NULL) {
		require(verbs.ibv_destroy_qp(side->qp) == 0, "ibv_destroy_qp");
		require(verbs.ibv_destroy_cq(side->cq) == 0, "ibv_destroy_cq");
		require(verbs.ibv_dereg_mr(side->mr) == 0, "ibv_dereg_mr");
	}
	require(verbs.ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
	printf("%d round trips on %s\n", ROUNDS, verbs.ibv_get_device_name(list[0]));
	require(verbs.ibv_close_device(context) == 0, "ibv_close_device");
	verbs.ibv_free_device_list(list);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Two queue pairs of one process, connected to each other: OPERATION (send, write or read) of SIZE
// bytes, WINDOW posted before the completions are polled, MESSAGES in all. One thread does
// everything, so the number of instructions is nearly the same in each run.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 16, ROOM = 1 << 20, WINDOW_MAX = 64 };

#define REQUIRE(condition)                             \
	do {                                               \
		if (!(condition)) {                            \
			fprintf(stderr, "loop: %s\n", #condition); \
			exit(1);                                   \
		}                                              \
	} while (0)

static void connect_pair(struct ibv_qp* qp, uint32_t peer, const union ibv_gid* gid) {
	const int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	REQUIRE(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	struct ibv_qp_attr ready = {.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.rq_psn = 5,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 64}}};
	REQUIRE(!ibv_modify_qp(qp, &ready,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			IBV_QP_MIN_RNR_TIMER));
	struct ibv_qp_attr send = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = 5, .max_rd_atomic = 1};
	REQUIRE(!ibv_modify_qp(qp, &send,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void poll_for(struct ibv_cq* cq, int wanted) {
	struct ibv_wc completions[BATCH];
	while (wanted > 0) {
		const int got = ibv_poll_cq(cq, BATCH, completions);
		REQUIRE(got >= 0);
		for (int i = 0; i < got; ++i) REQUIRE(completions[i].status == IBV_WC_SUCCESS);
		wanted -= got;
	}
}

int main(int argc, char** argv) {
	REQUIRE(argc == 5);
	const int sends = strcmp(argv[1], "send") == 0;
	const enum ibv_wr_opcode opcode = sends ? IBV_WR_SEND : argv[1][0] == 'w' ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	const uint32_t size = (uint32_t)atoi(argv[2]);
	const int window = atoi(argv[3]);
	const long messages = atol(argv[4]);
	REQUIRE(size <= ROOM / 2 && window >= 1 && window <= WINDOW_MAX);

	struct ibv_device** devices = ibv_get_device_list(NULL);
	REQUIRE(devices && devices[0]);
	struct ibv_context* context = ibv_open_device(devices[0]);
	REQUIRE(context);
	union ibv_gid gid;
	REQUIRE(!ibv_query_gid(context, 1, 0, &gid));
	struct ibv_pd* pd = ibv_alloc_pd(context);
	REQUIRE(pd);
	char* memory = aligned_alloc(4096, ROOM);
	REQUIRE(memory);
	memset(memory, 0, ROOM);
	struct ibv_mr* mr =
		ibv_reg_mr(pd, memory, ROOM, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	REQUIRE(mr);

	struct ibv_cq* sent = ibv_create_cq(context, WINDOW_MAX, NULL, NULL, 0);
	struct ibv_cq* received = ibv_create_cq(context, WINDOW_MAX, NULL, NULL, 0);
	REQUIRE(sent && received);
	struct ibv_qp* pair[2];
	for (int i = 0; i < 2; ++i) {
		struct ibv_qp_init_attr attributes = {.send_cq = sent,
			.recv_cq = received,
			.qp_type = IBV_QPT_RC,
			.cap = {.max_send_wr = WINDOW_MAX, .max_recv_wr = WINDOW_MAX, .max_send_sge = 1, .max_recv_sge = 1}};
		pair[i] = ibv_create_qp(pd, &attributes);
		REQUIRE(pair[i]);
	}
	for (int i = 0; i < 2; ++i) connect_pair(pair[i], pair[!i]->qp_num, &gid);

	struct ibv_sge from = {(uintptr_t)memory, size, mr->lkey};
	struct ibv_sge to = {(uintptr_t)memory + ROOM / 2, ROOM / 2, mr->lkey};
	struct ibv_send_wr request = {.sg_list = &from, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
	request.wr.rdma.remote_addr = to.addr;
	request.wr.rdma.rkey = mr->rkey;
	struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1};
	struct ibv_send_wr* bad_request;
	struct ibv_recv_wr* bad_receive;
	for (long done = 0; done < messages; done += window) {
		for (int i = 0; i < window && sends; ++i) REQUIRE(!ibv_post_recv(pair[1], &receive, &bad_receive));
		for (int i = 0; i < window; ++i) REQUIRE(!ibv_post_send(pair[0], &request, &bad_request));
		poll_for(sent, window);
		if (sends) poll_for(received, window);
	}
	return 0;
}

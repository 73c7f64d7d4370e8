// SPDX-License-Identifier: Apache-2.0
/* Posts requests with one mistake each, by ibv_post_send and by the functions of ibv_wr_post(3), on
 * a queue pair that is connected to itself. Prints as wrong_calls.c does. At last it posts right
 * requests, and prints a line for each completion that is not as it must be: no refused request may
 * be left in the queue.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../must.h"

enum { DEPTH = 4, INLINE_MAX = 32 };

static struct ibv_context *device;
static struct ibv_pd *pd, *other_pd;
static struct ibv_cq_ex *cq;
static struct ibv_qp *rc, *ud;
static struct ibv_qp_ex *rcx, *udx;
static struct ibv_mr *mr;
static struct ibv_mw *foreign_window;
static struct ibv_ah *foreign_ah;
static unsigned char memory[4096];

#define WRONG(name, number)                                                                        \
	do {                                                                                       \
		fprintf(stderr, "call %s\n", name);                                                \
		int number_of_call = (number);                                                     \
		fprintf(stderr, "errno %d\n", number_of_call);                                     \
	} while (0)

static struct ibv_qp *make_qp(enum ibv_qp_type type, uint64_t operations)
{
	struct ibv_qp_init_attr_ex init = {.send_cq = ibv_cq_ex_to_cq(cq),
		.recv_cq = ibv_cq_ex_to_cq(cq),
		.cap = {DEPTH, DEPTH, 2, 1, INLINE_MAX},
		.qp_type = type,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = operations};

	return ibv_create_qp_ex(device, &init);
}

static void connect_to_itself(const union ibv_gid *gid)
{
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = 7,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = rc->qp_num,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 1}}};

	MUST(!ibv_modify_qp(rc, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	MUST(!ibv_modify_qp(ud, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attributes.qp_state = IBV_QPS_RTR;
	MUST(!ibv_modify_qp(ud, &attributes, IBV_QP_STATE));
	MUST(!ibv_modify_qp(rc, &attributes,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attributes.qp_state = IBV_QPS_RTS;
	MUST(!ibv_modify_qp(ud, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN));
	MUST(!ibv_modify_qp(rc, &attributes,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC));
}

static void make_objects(union ibv_gid *gid)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_cq_init_attr_ex init = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};

	device = list && list[0] ? ibv_open_device(list[0]) : NULL;
	MUST(device && !ibv_query_gid(device, 1, 0, gid));
	MUST((pd = ibv_alloc_pd(device)) && (other_pd = ibv_alloc_pd(device)));
	MUST((cq = ibv_create_cq_ex(device, &init)));
	MUST((mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE)));
	MUST((foreign_window = ibv_alloc_mw(other_pd, IBV_MW_TYPE_2)));
	to.grh.dgid = *gid;
	MUST((foreign_ah = ibv_create_ah(other_pd, &to)));
	MUST((rc = make_qp(IBV_QPT_RC, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV |
						IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)));
	MUST((ud = make_qp(IBV_QPT_UD, IBV_QP_EX_WITH_SEND)));
	rcx = ibv_qp_to_qp_ex(rc), udx = ibv_qp_to_qp_ex(ud);
}

static struct ibv_sge whole(void)
{
	return (struct ibv_sge){(uintptr_t)memory, 64, mr->lkey};
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad = NULL;
	const int error = ibv_post_send(qp, &wr, &bad);

	if (error && bad != &wr) fprintf(stderr, "bad_wr is not the refused request\n");
	return error;
}

static void post_receive(uint64_t id)
{
	struct ibv_sge at = {(uintptr_t)memory + 2048, 64, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &at, .num_sge = 1}, *bad;

	MUST(!ibv_post_recv(rc, &wr, &bad));
}

static void wrong_requests(void)
{
	struct ibv_sge long_list[2] = {{(uintptr_t)memory, 1u << 31, mr->lkey}, {(uintptr_t)memory, 1, mr->lkey}};
	struct ibv_sge nowhere = {64, 8, 0}, one = whole();
	struct ibv_send_wr bind = {.opcode = IBV_WR_BIND_MW};

	struct ibv_send_wr send = {.wr_id = 100, .sg_list = &one, .num_sge = 1, .opcode = IBV_WR_SEND};

	WRONG("post length",
	      post_send(rc, (struct ibv_send_wr){.sg_list = long_list, .num_sge = 2, .opcode = IBV_WR_SEND}));
	WRONG("post without ah", post_send(ud, send));
	send.wr.ud.ah = foreign_ah;
	WRONG("post foreign ah", post_send(ud, send));
	WRONG("post inline read", post_send(rc, (struct ibv_send_wr){.sg_list = &one,
								     .num_sge = 0,
								     .opcode = IBV_WR_RDMA_READ,
								     .send_flags = IBV_SEND_INLINE}));
	WRONG("post inline nowhere", post_send(rc, (struct ibv_send_wr){.sg_list = &nowhere,
									.num_sge = 1,
									.opcode = IBV_WR_SEND,
									.send_flags = IBV_SEND_INLINE}));
	bind.bind_mw.mw = foreign_window;
	bind.bind_mw.bind_info = (struct ibv_mw_bind_info){mr, (uintptr_t)memory, 64, IBV_ACCESS_REMOTE_READ};
	WRONG("post foreign window", post_send(rc, bind));
	/* No receive is posted, so these stay in the queue. */
	for (int i = 0; i < DEPTH; ++i) MUST(!post_send(rc, send));
	WRONG("post full", post_send(rc, send));
	ibv_wr_start(rcx);
	ibv_wr_send(rcx);
	WRONG("build full", ibv_wr_complete(rcx));
}

/* One request each, after one that is right: both are refused. */
static void wrong_builds(void)
{
	struct ibv_sge long_list[2] = {{(uintptr_t)memory, 1u << 31, mr->lkey}, {(uintptr_t)memory, 1, mr->lkey}};
	struct ibv_sge many[3] = {whole(), whole(), whole()};
	const struct ibv_data_buf parts[2] = {{memory, INLINE_MAX - 1}, {memory, 2}};
	void *const nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(nowhere != MAP_FAILED);
#define BUILD(name, qp, request)                                                                   \
	do {                                                                                       \
		ibv_wr_start(qp);                                                                  \
		ibv_wr_send(qp);                                                                   \
		ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 8);                                \
		request;                                                                           \
		WRONG(name, ibv_wr_complete(qp));                                                  \
	} while (0)
	BUILD("build inline too long", rcx, (ibv_wr_send(rcx), ibv_wr_set_inline_data_list(rcx, 2, parts)));
	BUILD("build inline nowhere", rcx, (ibv_wr_send(rcx), ibv_wr_set_inline_data(rcx, nowhere, 8)));
	BUILD("build segments", rcx, (ibv_wr_send(rcx), ibv_wr_set_sge_list(rcx, 3, many)));
	BUILD("build length", rcx, (ibv_wr_send(rcx), ibv_wr_set_sge_list(rcx, 2, long_list)));
	BUILD("build foreign ah", udx, ibv_wr_set_ud_addr(udx, foreign_ah, 1, 7));
	/* The setters after an error have no request to write to. */
	BUILD("build foreign window", rcx,
	      (ibv_wr_bind_mw(rcx, foreign_window, foreign_window->rkey,
			      &(struct ibv_mw_bind_info){mr, (uintptr_t)memory, 64, IBV_ACCESS_REMOTE_READ}),
	       ibv_wr_set_sge(rcx, mr->lkey, (uintptr_t)memory, 8), ibv_wr_send_inv(rcx, 1),
	       ibv_wr_set_inline_data(rcx, memory, 8)));
	ibv_wr_start(rcx);
	ibv_wr_send(rcx);
	ibv_wr_set_sge(rcx, mr->lkey, (uintptr_t)memory, 8);
	ibv_wr_abort(rcx);
}

/* Waits until `wanted` completions have come, and judges each. */
static void poll_for(int wanted, void (*judge)(void))
{
	struct ibv_poll_cq_attr none = {.comp_mask = 0};
	const time_t deadline = time(NULL) + 20;

	while (wanted > 0) {
		MUST(time(NULL) < deadline);
		if (ibv_start_poll(cq, &none)) continue;
		do {
			judge();
			--wanted;
		} while (ibv_next_poll(cq) == 0);
		ibv_end_poll(cq);
	}
}

static void judge_queued(void)
{
	if (cq->status != IBV_WC_SUCCESS || cq->wr_id != 100)
		fprintf(stderr, "a send ended with %s, id %u\n", ibv_wc_status_str(cq->status), (unsigned)cq->wr_id);
}

static void judge_inline(void)
{
	const int received = ibv_wc_read_opcode(cq) == IBV_WC_RECV;

	if (cq->status != IBV_WC_SUCCESS || cq->wr_id != (received ? 100u : 7u))
		fprintf(stderr, "it ended with %s, id %u\n", ibv_wc_status_str(cq->status), (unsigned)cq->wr_id);
	if (ibv_wc_read_qp_num(cq) != rc->qp_num) fprintf(stderr, "another queue pair's\n");
	if (!received) return;
	if (ibv_wc_read_byte_len(cq) != 6 || memcmp(memory + 2048, "abcdef", 6) != 0) fprintf(stderr, "other bytes\n");
	if (ibv_wc_read_wc_flags(cq) != IBV_WC_WITH_IMM || ibv_wc_read_imm_data(cq) != htonl(9))
		fprintf(stderr, "another immediate\n");
}

static void right_requests(void)
{
	char first[] = "abc", second[] = "def";
	const struct ibv_data_buf parts[2] = {{first, 3}, {second, 3}};
	struct ibv_poll_cq_attr unknown = {.comp_mask = 1};

	for (int i = 0; i < DEPTH; ++i) post_receive(100);
	poll_for(2 * DEPTH, judge_queued);
	post_receive(100);
	ibv_wr_start(rcx);
	rcx->wr_id = 7;
	ibv_wr_send_imm(rcx, htonl(9));
	ibv_wr_set_inline_data_list(rcx, 2, parts);
	memset(first, 'x', sizeof first); /* the program may reuse its memory at once */
	MUST(!ibv_wr_complete(rcx));
	poll_for(2, judge_inline);
	WRONG("poll comp_mask", ibv_start_poll(cq, &unknown));
}

int main(void)
{
	union ibv_gid gid;

	make_objects(&gid);
	WRONG("build in RESET", (ibv_wr_start(rcx), ibv_wr_send(rcx), ibv_wr_complete(rcx)));
	connect_to_itself(&gid);
	wrong_builds();
	wrong_requests();
	right_requests();
	fprintf(stderr, "done\n");
	return 0;
}

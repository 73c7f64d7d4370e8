// SPDX-License-Identifier: Apache-2.0
// A pair by verbs: RC on this host's device, with polled completions and with events.
#include "side.h"

#include <infiniband/verbs.h>

enum { DEPTH = 2 * MESSAGES };

static struct ibv_context* context;
static struct ibv_comp_channel* channel;
static struct ibv_cq* cq;
static struct ibv_qp* qp;
static struct ibv_mr* mr;
static unsigned char *sent, *received;

struct address {
	uint32_t qpn, psn;
	union ibv_gid gid;
};

static void open_device(void) {
	int count = 0;
	struct ibv_device** list = ibv_get_device_list(&count);
	TRY(list);
	errno = ENODEV;
	for (int i = 0; i < count && !context; ++i)
		if (strcmp(ibv_get_device_name(list[i]), "vb_lo") == 0) context = ibv_open_device(list[i]);
	TRY(context);
	ibv_free_device_list(list);
}

static void post_receives(void) {
	for (unsigned i = 0; i < MESSAGES; ++i) {
		struct ibv_sge sge = {(uintptr_t)(received + i * MESSAGE_BYTES), MESSAGE_BYTES, mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;
		TRY((errno = ibv_post_recv(qp, &wr, &bad)) == 0);
	}
}

static void post_sends(unsigned first) {
	for (unsigned i = 0; i < MESSAGES; ++i) {
		fill(sent + i * MESSAGE_BYTES, MESSAGE_BYTES, first + i);
		struct ibv_sge sge = {(uintptr_t)(sent + i * MESSAGE_BYTES), MESSAGE_BYTES, mr->lkey};
		struct ibv_send_wr wr = {.wr_id = MESSAGES + i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED};
		struct ibv_send_wr* bad;
		TRY((errno = ibv_post_send(qp, &wr, &bad)) == 0);
	}
}

static void take(const struct ibv_wc* wc, unsigned first) {
	if (wc->status != IBV_WC_SUCCESS) {
		// The other side has given up, or ended.
		fprintf(stderr, "%s: completion: %s\n", side_name, ibv_wc_status_str(wc->status));
		exit(CLEAN_ERROR);
	}
	if (wc->wr_id < MESSAGES)
		check_filled(received + wc->wr_id * MESSAGE_BYTES, MESSAGE_BYTES, first + (unsigned)wc->wr_id);
}

// Sends and receives MESSAGES messages and waits for all completions.
static void play_round(unsigned first, bool by_events) {
	post_receives();
	meet();
	post_sends(first);
	struct timespec start, now;
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int left = 2 * MESSAGES; left > 0;) {
		struct ibv_wc wc;
		if (by_events) TRY((errno = ibv_req_notify_cq(cq, 0)) == 0);
		int got;
		while ((got = ibv_poll_cq(cq, 1, &wc)) == 1) take(&wc, first), --left;
		TRY(got == 0);
		if (left == 0) break;
		if (by_events) {
			struct ibv_cq* which;
			void* unused;
			await(channel->fd, "completion event");
			if (ibv_get_cq_event(channel, &which, &unused) == 0) ibv_ack_cq_events(which, 1);
			else TRY(errno == EINTR || errno == EAGAIN);
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec - start.tv_sec > WAIT_MS / 1000) lost("completion");
	}
}

static void connect_qp(void) {
	struct address mine = {.qpn = qp->qp_num, .psn = qp->qp_num & 0xffff}, theirs;
	TRY((errno = ibv_query_gid(context, 1, 0, &mine.gid) ? errno : 0) == 0);
	exchange(&mine, &theirs, sizeof mine);
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	TRY((errno = ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) == 0);
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = theirs.qpn,
		.rq_psn = theirs.psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = theirs.gid, .hop_limit = 64}}};
	TRY((errno = ibv_modify_qp(qp, &rtr,
			 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				 IBV_QP_MIN_RNR_TIMER)) == 0);
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = mine.psn, .max_rd_atomic = 1};
	TRY((errno = ibv_modify_qp(qp, &rts,
			 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				 IBV_QP_MAX_QP_RD_ATOMIC)) == 0);
}

void play_verbs(bool server) {
	(void)server;
	open_device();
	struct ibv_pd* pd = ibv_alloc_pd(context);
	TRY(pd);
	TRY(channel = ibv_create_comp_channel(context));
	TRY(cq = ibv_create_cq(context, 2 * DEPTH, NULL, channel, 0));
	TRY(sent = calloc(2 * MESSAGES, MESSAGE_BYTES));
	received = sent + MESSAGES * MESSAGE_BYTES;
	TRY(mr = ibv_reg_mr(pd, sent, (size_t)2 * MESSAGES * MESSAGE_BYTES, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {DEPTH, DEPTH, 1, 1, 0}};
	// A call that failed once works later: nothing of the failure may stay behind.
	if (!(qp = ibv_create_qp(pd, &init))) {
		fprintf(stderr, "%s: ibv_create_qp: %s\n", side_name, strerror(errno));
		TRY(qp = ibv_create_qp(pd, &init));
	}
	connect_qp();
	play_round(100, false);
	play_round(200, true);
	meet();
	TRY((errno = ibv_destroy_qp(qp)) == 0);
	TRY((errno = ibv_destroy_cq(cq)) == 0);
	TRY((errno = ibv_destroy_comp_channel(channel)) == 0);
	TRY((errno = ibv_dereg_mr(mr)) == 0);
	TRY((errno = ibv_dealloc_pd(pd)) == 0);
	TRY((errno = ibv_close_device(context)) == 0);
}

// SPDX-License-Identifier: Apache-2.0
/* Two RC queue pairs of one process send each other 64 messages, wait for events, and check the
 * bytes. Built with sanitizers and other allocators (test_run.py). Prints "64 messages"; exits with
 * 1 and names the call that failed.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { messages = 64, bytes = 4096 };

static void demand(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static void connect_to(struct ibv_qp *qp, uint32_t destination, union ibv_gid gid)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = destination,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}}};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};

	demand(!ibv_modify_qp(qp, &init,
		       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		"INIT");
	demand(!ibv_modify_qp(qp, &rtr,
		       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
		"RTR");
	demand(!ibv_modify_qp(qp, &rts,
		       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			       IBV_QP_MAX_QP_RD_ATOMIC),
		"RTS");
}

/* Takes two completions, of a send and of its receive. */
static void complete(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	for (int done = 0; done < 2;) {
		struct ibv_wc wc;
		struct ibv_cq *woken;
		void *context;

		demand(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		int found = ibv_poll_cq(cq, 1, &wc);
		demand(found >= 0, "ibv_poll_cq");
		if (found) {
			demand(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
			done++;
			continue;
		}
		demand(!ibv_get_cq_event(channel, &woken, &context), "ibv_get_cq_event");
		ibv_ack_cq_events(woken, 1);
	}
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	demand(list && list[0], "ibv_get_device_list");
	struct ibv_context *device = ibv_open_device(list[0]);
	demand(device != NULL, "ibv_open_device");
	union ibv_gid gid;
	demand(!ibv_query_gid(device, 1, 0, &gid), "ibv_query_gid");
	struct ibv_pd *pd = ibv_alloc_pd(device);
	unsigned char *memory = calloc(2, bytes);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 2 * bytes, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(device);
	struct ibv_cq *cq = ibv_create_cq(device, 16, NULL, channel, 0);
	demand(mr && cq, "ibv_reg_mr, ibv_create_cq");
	struct ibv_qp_init_attr init = {.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp[2] = {ibv_create_qp(pd, &init), ibv_create_qp(pd, &init)};
	demand(qp[0] && qp[1], "ibv_create_qp");
	connect_to(qp[0], qp[1]->qp_num, gid);
	connect_to(qp[1], qp[0]->qp_num, gid);

	for (int i = 0; i < messages; i++) {
		struct ibv_sge from = {(uintptr_t)memory, bytes, mr->lkey};
		struct ibv_sge to = {(uintptr_t)memory + bytes, bytes, mr->lkey};
		struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1}, *bad_receive;
		struct ibv_send_wr send = {.sg_list = &from,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED};
		struct ibv_send_wr *bad_send;

		memset(memory, i + 1, bytes);
		demand(!ibv_post_recv(qp[i % 2], &receive, &bad_receive), "ibv_post_recv");
		demand(!ibv_post_send(qp[1 - i % 2], &send, &bad_send), "ibv_post_send");
		complete(channel, cq);
		demand(!memcmp(memory, memory + bytes, bytes), "the bytes of a message");
	}
	printf("%d messages\n", messages);

	demand(!ibv_destroy_qp(qp[0]) && !ibv_destroy_qp(qp[1]), "ibv_destroy_qp");
	demand(!ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel), "ibv_destroy_cq");
	demand(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd), "ibv_dereg_mr");
	free(memory);
	demand(!ibv_close_device(device), "ibv_close_device");
	ibv_free_device_list(list);
	return 0;
}

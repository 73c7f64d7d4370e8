// SPDX-License-Identifier: Apache-2.0
/* A program that refills its shared receive queue when an event reports that few receives are left
 * (ibv_modify_srq(3), IBV_EVENT_SRQ_LIMIT_REACHED). A queue pair is connected to itself. Prints a
 * line for what is not as it must be, and at last "done".
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../must.h"

enum { RECEIVES = 4, LIMIT = 3, PATIENCE_MS = 20000 };

static struct ibv_context *device;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static unsigned char memory[64];

static void connect_to_itself(const union ibv_gid *gid)
{
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 1}}};

	MUST(!ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attributes.qp_state = IBV_QPS_RTR;
	MUST(!ibv_modify_qp(qp, &attributes,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attributes.qp_state = IBV_QPS_RTS;
	MUST(!ibv_modify_qp(qp, &attributes,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC));
}

static void make_objects(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	union ibv_gid gid;

	device = list && list[0] ? ibv_open_device(list[0]) : NULL;
	MUST(device && !ibv_query_gid(device, 1, 0, &gid));
	MUST((pd = ibv_alloc_pd(device)) && (cq = ibv_create_cq(device, 16, NULL, NULL, 0)));
	MUST((srq = ibv_create_srq(pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = RECEIVES, .max_sge = 1}})));
	MUST((mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE)));
	MUST((qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){.send_cq = cq,
								.recv_cq = cq,
								.srq = srq,
								.cap = {RECEIVES, 0, 1, 0, 0},
								.qp_type = IBV_QPT_RC})));
	connect_to_itself(&gid);
	MUST(fcntl(device->async_fd, F_SETFL, O_NONBLOCK) == 0);
}

static void post_receives(int count)
{
	struct ibv_sge at = {(uintptr_t)memory, sizeof memory, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &at, .num_sge = 1}, *bad;

	for (int i = 0; i < count; ++i) MUST(!ibv_post_srq_recv(srq, &wr, &bad));
}

static void send_one(void)
{
	struct ibv_sge from = {(uintptr_t)memory, 8, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	const time_t deadline = time(NULL) + PATIENCE_MS / 1000;
	struct ibv_wc wc;
	int got;

	MUST(!ibv_post_send(qp, &wr, &bad));
	while ((got = ibv_poll_cq(cq, 1, &wc)) == 0) MUST(time(NULL) < deadline);
	MUST(got == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
}

static void arm(unsigned limit)
{
	MUST(!ibv_modify_srq(srq, &(struct ibv_srq_attr){.srq_limit = limit}, IBV_SRQ_LIMIT));
}

static unsigned armed(void)
{
	struct ibv_srq_attr attributes;

	MUST(!ibv_query_srq(srq, &attributes));
	return attributes.srq_limit;
}

static void expect_event(void)
{
	struct pollfd ready = {.fd = device->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	MUST(poll(&ready, 1, PATIENCE_MS) == 1 && !ibv_get_async_event(device, &event));
	MUST(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
	ibv_ack_async_event(&event);
}

static void expect_no_event(void)
{
	struct ibv_async_event event;

	MUST(ibv_get_async_event(device, &event) == -1 && errno == EAGAIN);
}

int main(void)
{
	make_objects();
	post_receives(RECEIVES);
	send_one();
	send_one();
	expect_no_event(); /* no limit is set: 2 of 4 are left */
	post_receives(2);
	arm(LIMIT);
	send_one();
	expect_no_event(); /* as many as the limit are left */
	send_one();
	expect_event();
	MUST(armed() == 0); /* the limit is one shot */
	send_one();
	expect_no_event();
	post_receives(3);
	arm(LIMIT);
	send_one();
	send_one();
	expect_event();
	/* Waits for all events to be acknowledged. */
	MUST(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq));
	fprintf(stderr, "done\n");
	return 0;
}

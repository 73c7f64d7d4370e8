// SPDX-License-Identifier: Apache-2.0
/* waits ROW: waits in a verb for ever, by the mistake ROW.
 *
 * unacknowledged   an event was fetched, and the completion queue is destroyed
 * unarmed          no completion queue is armed
 * held             the queue holds completions and is not armed
 * unpolled         the queue was armed again, and its completions were not polled before
 * idle             no mistake: the queue is armed and empty, and nothing comes
 *
 * The completions are those of receives that are posted to a queue pair in the error state. */
#include <infiniband/verbs.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;

static void *or_end(void *made, const char *what)
{
	if (made)
		return made;
	perror(what);
	exit(1);
}

static void set_up(void)
{
	struct ibv_device **list = or_end(ibv_get_device_list(NULL), "ibv_get_device_list");
	struct ibv_context *context = or_end(ibv_open_device(or_end(list[0], "no device")), "ibv_open_device");
	struct ibv_pd *pd = or_end(ibv_alloc_pd(context), "ibv_alloc_pd");
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	channel = or_end(ibv_create_comp_channel(context), "ibv_create_comp_channel");
	init.send_cq = init.recv_cq = cq = or_end(ibv_create_cq(context, 8, NULL, channel, 0), "ibv_create_cq");
	qp = or_end(ibv_create_qp(pd, &init), "ibv_create_qp");
	or_end(ibv_modify_qp(qp, &attributes, mask) ? NULL : qp, "INIT");
	attributes.qp_state = IBV_QPS_ERR;
	or_end(ibv_modify_qp(qp, &attributes, IBV_QP_STATE) ? NULL : qp, "ERR");
}

static void complete(int count)
{
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad;

	while (count-- > 0)
		or_end(ibv_post_recv(qp, &wr, &bad) ? NULL : qp, "ibv_post_recv");
}

static void arm(void)
{
	or_end(ibv_req_notify_cq(cq, 0) ? NULL : cq, "ibv_req_notify_cq");
}

static void fetch(void)
{
	struct ibv_cq *of;
	void *context;

	or_end(ibv_get_cq_event(channel, &of, &context) ? NULL : of, "ibv_get_cq_event");
}

int main(int argc, char **argv)
{
	const char *row = argc == 2 ? argv[1] : "";

	set_up();
	if (!strcmp(row, "unacknowledged")) {
		arm();
		complete(1);
		fetch();
		ibv_destroy_qp(qp);
		return ibv_destroy_cq(cq);
	}
	if (!strcmp(row, "unpolled")) {
		arm();
		complete(1);
		fetch();
		ibv_ack_cq_events(cq, 1);
		arm();
	} else if (!strcmp(row, "held")) {
		complete(3);
	} else if (!strcmp(row, "idle")) {
		arm();
	} else if (strcmp(row, "unarmed")) {
		return 2;
	}
	fetch();
	return 0;
}

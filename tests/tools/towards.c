// SPDX-License-Identifier: Apache-2.0
/* `towards DEVICE ADDRESS`: sends one message over RC to queue pair 0x1234 of an IP address, and
 * prints the status of its completion, or the call that fails. Gives up after few retries.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void demand(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return ibv_open_device(list[i]);
	return NULL;
}

/* The index of a GID from which the address can be reached: one with the same first two bytes. */
static uint8_t index_towards(struct ibv_context *device, const union ibv_gid *to)
{
	union ibv_gid from;

	for (int i = 0; i < 255 && !ibv_query_gid(device, 1, i, &from); i++)
		if (!memcmp(from.raw, to->raw, 2) && from.raw[15])
			return i;
	demand(0, "no GID of the address's family");
	return 0;
}

int main(int argc, char **argv)
{
	union ibv_gid to = {.raw = {[10] = 0xff, [11] = 0xff}};
	char byte = 0;

	demand(argc == 3, "usage: towards DEVICE ADDRESS");
	demand(inet_pton(AF_INET, argv[2], to.raw + 12) == 1 || inet_pton(AF_INET6, argv[2], to.raw) == 1, "ADDRESS");
	struct ibv_context *device = open_named(argv[1]);
	demand(device != NULL, "ibv_open_device");
	struct ibv_pd *pd = ibv_alloc_pd(device);
	struct ibv_cq *cq = ibv_create_cq(device, 4, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, &byte, 1, 0);
	struct ibv_qp_init_attr init = {.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_qp_attr start = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = 0x1234,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = to, .sgid_index = index_towards(device, &to), .hop_limit = 64}}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 12, .retry_cnt = 2};

	demand(qp && !ibv_modify_qp(qp, &start, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	       "INIT");
	demand(!ibv_modify_qp(qp, &rtr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	       "RTR");
	demand(!ibv_modify_qp(qp, &rts,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				      IBV_QP_MAX_QP_RD_ATOMIC),
	       "RTS");

	struct ibv_sge segment = {(uintptr_t)&byte, 1, mr->lkey};
	struct ibv_send_wr send = {.sg_list = &segment, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_wc wc;
	int found;

	demand(!ibv_post_send(qp, &send, &bad), "ibv_post_send");
	while (!(found = ibv_poll_cq(cq, 1, &wc)))
		;
	demand(found == 1, "ibv_poll_cq");
	printf("%s\n", ibv_wc_status_str(wc.status));
	return 0;
}

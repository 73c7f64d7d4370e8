// SPDX-License-Identifier: Apache-2.0
/* Queue pairs and the operations of ibv_wr_post(3) that they were made for. Prints a line for what
 * is not as it must be, and at last "done".
 *
 *     operations, on a NIC that has further operations, as mlx5
 *     operations strict, on a NIC that has only those of send_ops_flags
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../must.h"

static struct ibv_context *device;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static struct ibv_qp *make_qp(uint32_t comp_mask, uint64_t operations)
{
	struct ibv_qp_init_attr_ex init = {.send_cq = cq,
		.recv_cq = cq,
		.cap = {4, 4, 1, 1, 0},
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | comp_mask,
		.pd = pd,
		.send_ops_flags = operations};
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11111111};
	struct ibv_qp *qp = ibv_create_qp_ex(device, &init);

	MUST(qp);
	MUST(!ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attributes.qp_state = IBV_QPS_RTR;
	MUST(!ibv_modify_qp(qp, &attributes, IBV_QP_STATE));
	attributes.qp_state = IBV_QPS_RTS;
	MUST(!ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN));
	return qp;
}

static int post(struct ibv_qp *qp, void (*build)(struct ibv_qp_ex *))
{
	struct ibv_qp_ex *extended = ibv_qp_to_qp_ex(qp);

	MUST(extended);
	ibv_wr_start(extended);
	build(extended);
	ibv_wr_set_sge_list(extended, 0, NULL);
	return ibv_wr_complete(extended);
}

static void build_send(struct ibv_qp_ex *qp)
{
	ibv_wr_send(qp);
}

static void build_send_imm(struct ibv_qp_ex *qp)
{
	ibv_wr_send_imm(qp, 0);
}

int main(int argc, char **argv)
{
	const int strict = argc > 1 && !strcmp(argv[1], "strict");
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr plain = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	struct ibv_qp *qp;

	device = list && list[0] ? ibv_open_device(list[0]) : NULL;
	MUST(device && (pd = ibv_alloc_pd(device)) && (cq = ibv_create_cq(device, 16, NULL, NULL, 0)));
	plain.send_cq = plain.recv_cq = cq;
	MUST((qp = ibv_create_qp(pd, &plain)) && !ibv_qp_to_qp_ex(qp) && !ibv_destroy_qp(qp));
	qp = make_qp(0, 0);
	MUST(!ibv_qp_to_qp_ex(qp) && !ibv_destroy_qp(qp));
	qp = make_qp(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, IBV_QP_EX_WITH_SEND);
	MUST(post(qp, build_send) == 0);
	MUST(post(qp, build_send_imm) == (strict ? EINVAL : 0));
	MUST(post(qp, build_send) == 0);
	MUST(!ibv_destroy_qp(qp));
	fprintf(stderr, "done\n");
	return 0;
}

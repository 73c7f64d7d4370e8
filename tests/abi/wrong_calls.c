// SPDX-License-Identifier: Apache-2.0
/* Makes calls with one wrong argument each. On standard error it prints "call NAME" before each and
 * "errno NAME" with the errno's number after it; a call that succeeds has the number 0. The lines
 * of the NIC between the two are the reasons that it gives (test_reasons.py).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct ibv_context *device;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *rc, *ud;
static struct ibv_srq *srq;
static struct ibv_comp_channel *channel;
static union ibv_gid gid;
static unsigned char memory[4096];

/* The number of a call that returns a pointer, an errno value, or -1. */
static int of_pointer(const void *made)
{
	return made ? 0 : errno;
}

static int of_int(int returned)
{
	return returned < 0 ? errno : returned;
}

#define WRONG(name, number)                                                                        \
	do {                                                                                       \
		fprintf(stderr, "call %s\n", name);                                                \
		errno = 0;                                                                         \
		int number_of_call = (number);                                                     \
		fprintf(stderr, "errno %d\n", number_of_call);                                     \
	} while (0)

static struct ibv_qp *make_qp(enum ibv_qp_type type, struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = cap, .qp_type = type};

	return ibv_create_qp(pd, &init);
}

static const struct ibv_qp_cap small = {
	.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 32};

static void make_objects(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 1, .max_sge = 1}};

	device = list && list[0] ? ibv_open_device(list[0]) : NULL;
	if (!device || ibv_query_gid(device, 1, 0, &gid)) {
		fprintf(stderr, "wrong_calls: no device\n");
		exit(1);
	}
	pd = ibv_alloc_pd(device);
	channel = ibv_create_comp_channel(device);
	cq = ibv_create_cq(device, 16, NULL, channel, 0);
	mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
	srq = ibv_create_srq(pd, &init);
	rc = make_qp(IBV_QPT_RC, small);
	ud = make_qp(IBV_QPT_UD, small);
	if (!cq || !mr || !srq || !rc || !ud) {
		fprintf(stderr, "wrong_calls: no objects\n");
		exit(1);
	}
}

static int modify(struct ibv_qp *qp, struct ibv_qp_attr attributes, int mask)
{
	return ibv_modify_qp(qp, &attributes, mask);
}

static int create_cq_ex(struct ibv_cq_init_attr_ex init)
{
	return of_pointer(ibv_create_cq_ex(device, &init));
}

static int create_qp_ex(struct ibv_qp_init_attr_ex init)
{
	return of_pointer(ibv_create_qp_ex(device, &init));
}

static int create_srq(struct ibv_srq_attr attributes)
{
	struct ibv_srq_init_attr init = {.attr = attributes};

	return of_pointer(ibv_create_srq(pd, &init));
}

static int create_ah(struct ibv_ah_attr attributes)
{
	return of_pointer(ibv_create_ah(pd, &attributes));
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, &wr, &bad);
}

static int post_receive(struct ibv_qp *qp, struct ibv_recv_wr wr)
{
	struct ibv_recv_wr *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

static void wrong_creation(void)
{
	struct ibv_qp_cap large = small;

	WRONG("ibv_query_port port", of_int(ibv_query_port(device, 2, &(struct ibv_port_attr){0})));
	WRONG("ibv_query_gid index", of_int(ibv_query_gid(device, 1, 100000, &gid)));
	WRONG("ibv_query_pkey index", of_int(ibv_query_pkey(device, 1, 3, &(uint16_t){0})));
	WRONG("ibv_get_pkey_index key", of_int(ibv_get_pkey_index(device, 1, htons(17))));
	WRONG("ibv_create_cq cqe", of_pointer(ibv_create_cq(device, 0, NULL, NULL, 0)));
	WRONG("ibv_create_cq cqe too large", of_pointer(ibv_create_cq(device, 1 << 30, NULL, NULL, 0)));
	WRONG("ibv_create_cq vector", of_pointer(ibv_create_cq(device, 1, NULL, NULL, 100000)));
	WRONG("ibv_create_cq_ex wc_flags", create_cq_ex((struct ibv_cq_init_attr_ex){.cqe = 1, .wc_flags = 1ull << 40}));
	WRONG("ibv_create_cq_ex comp_mask", create_cq_ex((struct ibv_cq_init_attr_ex){.cqe = 1, .comp_mask = 1u << 30}));
	WRONG("ibv_resize_cq cqe", ibv_resize_cq(cq, 0));
	WRONG("ibv_reg_mr access", of_pointer(ibv_reg_mr_iova2(pd, memory, 1, 0, IBV_ACCESS_REMOTE_WRITE)));
	WRONG("ibv_reg_mr length", of_pointer(ibv_reg_mr_iova2(pd, memory, SIZE_MAX, 0, 0)));
	WRONG("ibv_rereg_mr flags", (ibv_rereg_mr(mr, 1 << 20, NULL, NULL, 0, 0), errno));
	WRONG("ibv_alloc_mw type", of_pointer(ibv_alloc_mw(pd, (enum ibv_mw_type)9)));
	WRONG("ibv_create_srq max_wr", create_srq((struct ibv_srq_attr){.max_wr = 0, .max_sge = 1}));
	WRONG("ibv_create_srq max_sge", create_srq((struct ibv_srq_attr){.max_wr = 1, .max_sge = 1000}));
	WRONG("ibv_modify_srq limit",
	      ibv_modify_srq(srq, &(struct ibv_srq_attr){.srq_limit = 99}, IBV_SRQ_LIMIT));
	WRONG("ibv_create_qp type", of_pointer(make_qp(IBV_QPT_RAW_PACKET, small)));
	large.max_send_wr = 40000;
	WRONG("ibv_create_qp max_send_wr", of_pointer(make_qp(IBV_QPT_RC, large)));
	large = small;
	large.max_inline_data = 100000;
	WRONG("ibv_create_qp max_inline_data", of_pointer(make_qp(IBV_QPT_RC, large)));
	WRONG("ibv_create_qp_ex pd", create_qp_ex((struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RC}));
	WRONG("ibv_create_qp_ex create_flags",
	      create_qp_ex((struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RC,
						       .pd = pd,
						       .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
						       .create_flags = 1 << 20}));
	WRONG("ibv_qp_to_qp_ex", of_pointer(ibv_qp_to_qp_ex(rc)));
	WRONG("ibv_create_ah port", create_ah((struct ibv_ah_attr){.port_num = 7, .is_global = 1}));
	WRONG("ibv_create_ah is_global", create_ah((struct ibv_ah_attr){.port_num = 1}));
	WRONG("ibv_create_ah sgid_index",
	      create_ah((struct ibv_ah_attr){.port_num = 1, .is_global = 1, .grh = {.sgid_index = 200}}));
	WRONG("ibv_attach_mcast gid", ibv_attach_mcast(ud, &gid, 0));
	WRONG("ibv_import_mr", of_pointer(ibv_import_mr(pd, 1)));
	WRONG("ibv_query_ece", ibv_query_ece(rc, &(struct ibv_ece){0}));
}

static void wrong_transitions(void)
{
	const struct ibv_ah_attr to_itself = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}};
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = rc->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = to_itself};

	WRONG("ibv_modify_qp state", modify(rc, (struct ibv_qp_attr){.qp_state = 99}, IBV_QP_STATE));
	WRONG("ibv_modify_qp RESET to RTS", modify(rc, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, IBV_QP_STATE));
	WRONG("ibv_modify_qp INIT without port",
	      modify(rc, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT}, IBV_QP_STATE | IBV_QP_PKEY_INDEX));
	WRONG("ibv_modify_qp port",
	      modify(rc, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 9},
		     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	WRONG("ibv_modify_qp cur_qp_state",
	      modify(rc, (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR, .cur_qp_state = IBV_QPS_RTS},
		     IBV_QP_STATE | IBV_QP_CUR_STATE));
	WRONG("(to INIT)",
	      modify(rc, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1},
		     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	WRONG("ibv_modify_qp RTR without DEST_QPN", modify(rc, attributes, rtr & ~IBV_QP_DEST_QPN));
	WRONG("ibv_modify_qp RTR with TIMEOUT", modify(rc, attributes, rtr | IBV_QP_TIMEOUT));
	attributes.path_mtu = 9;
	WRONG("ibv_modify_qp path_mtu", modify(rc, attributes, rtr));
	attributes.path_mtu = IBV_MTU_256;
	attributes.ah_attr.is_global = 0;
	WRONG("ibv_modify_qp is_global", modify(rc, attributes, rtr));
	attributes.ah_attr = to_itself;
	attributes.ah_attr.grh.sgid_index = 200;
	WRONG("ibv_modify_qp sgid_index", modify(rc, attributes, rtr));
	attributes.ah_attr = to_itself;
	attributes.max_dest_rd_atomic = 200;
	WRONG("ibv_modify_qp max_dest_rd_atomic", modify(rc, attributes, rtr));
	attributes.max_dest_rd_atomic = 1;
	WRONG("(to RTR)", modify(rc, attributes, rtr));
}

static void wrong_posts(void)
{
	struct ibv_sge segments[2] = {{(uintptr_t)memory, 64, mr->lkey}, {(uintptr_t)memory, 64, mr->lkey}};
	const struct ibv_send_wr send = {.sg_list = segments, .num_sge = 1, .opcode = IBV_WR_SEND};
	const struct ibv_recv_wr receive = {.sg_list = segments, .num_sge = 1};
	struct ibv_send_wr wrong = send;
	struct ibv_recv_wr wrong_receive = receive;

	WRONG("ibv_post_send before RTS", post_send(rc, send));
	WRONG("ibv_post_recv in RESET", post_receive(ud, receive));
	WRONG("(to RTS)",
	      modify(rc,
		     (struct ibv_qp_attr){
			     .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1},
		     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			     IBV_QP_MAX_QP_RD_ATOMIC));
	wrong.opcode = (enum ibv_wr_opcode)99;
	WRONG("ibv_post_send opcode", post_send(rc, wrong));
	wrong = send;
	wrong.num_sge = 9;
	WRONG("ibv_post_send num_sge", post_send(rc, wrong));
	wrong = send;
	segments[0].length = 4096;
	wrong.send_flags = IBV_SEND_INLINE;
	WRONG("ibv_post_send inline", post_send(rc, wrong));
	segments[0].length = 64;
	wrong_receive.num_sge = 9;
	WRONG("ibv_post_recv num_sge", post_receive(rc, wrong_receive));
	WRONG("(receive)", post_receive(rc, receive));
	WRONG("ibv_post_recv full", post_receive(rc, receive));
}

static void wrong_destruction(void)
{
	WRONG("ibv_dealloc_pd", ibv_dealloc_pd(pd));
	WRONG("ibv_destroy_cq", ibv_destroy_cq(cq));
	WRONG("ibv_destroy_comp_channel", ibv_destroy_comp_channel(channel));
}

static void wrong_connections(void)
{
	struct rdma_event_channel *events = rdma_create_event_channel();
	struct rdma_cm_id *id = NULL;
	struct sockaddr_in not_ours = {.sin_family = AF_INET, .sin_addr = {htonl(0xC0000201)}};
	struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int parameters = 0;

	if (!events || rdma_create_id(events, &id, NULL, RDMA_PS_TCP)) {
		fprintf(stderr, "wrong_calls: no rdma_cm\n");
		exit(1);
	}
	WRONG("rdma_bind_addr", of_int(rdma_bind_addr(id, (struct sockaddr *)&not_ours)));
	WRONG("rdma_reject", of_int(rdma_reject(id, NULL, 0)));
	WRONG("rdma_set_option", of_int(rdma_set_option(id, 99, 99, &parameters, sizeof parameters)));
	WRONG("(to a bound id)", of_int(rdma_bind_addr(id, (struct sockaddr *)&loopback)));
	WRONG("rdma_bind_addr twice", of_int(rdma_bind_addr(id, (struct sockaddr *)&loopback)));
	rdma_destroy_id(id);
	rdma_destroy_event_channel(events);
}

/* Refused memory and descriptors. The limits make even small requests for them fail. */
static void wrong_environment(void)
{
	struct rdma_event_channel *events = rdma_create_event_channel();
	struct rlimit before, none = {0, 0};
	struct rdma_cm_id *id = NULL;
	struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};

	if (!events || rdma_create_id(events, &id, NULL, RDMA_PS_TCP)) {
		fprintf(stderr, "wrong_calls: no rdma_cm\n");
		exit(1);
	}
	getrlimit(RLIMIT_AS, &before);
	none.rlim_max = before.rlim_max;
	setrlimit(RLIMIT_AS, &none);
	WRONG("ibv_create_cq without memory", of_pointer(ibv_create_cq(device, 65536, NULL, NULL, 0)));
	WRONG("ibv_create_qp without memory",
	      of_pointer(make_qp(IBV_QPT_RC, (struct ibv_qp_cap){.max_send_wr = 16384, .max_recv_wr = 16384})));
	setrlimit(RLIMIT_AS, &before);
	getrlimit(RLIMIT_NOFILE, &before);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, before.rlim_max}); /* the standard descriptors */
	WRONG("ibv_create_comp_channel without descriptors", of_pointer(ibv_create_comp_channel(device)));
	WRONG("ibv_open_device without descriptors", of_pointer(ibv_open_device(device->device)));
	WRONG("rdma_bind_addr without descriptors", of_int(rdma_bind_addr(id, (struct sockaddr *)&loopback)));
	WRONG("rdma_create_event_channel without descriptors", of_pointer(rdma_create_event_channel()));
	setrlimit(RLIMIT_NOFILE, &before);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(events);
}

static void wrong_files(void)
{
	char path[256];

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/node_type", ibv_get_device_name(device->device));
	WRONG("open a file of the device to write", of_int(open(path, O_WRONLY)));
}

int main(void)
{
	make_objects();
	wrong_creation();
	wrong_transitions();
	wrong_posts();
	wrong_destruction();
	wrong_connections();
	wrong_files();
	wrong_environment();
	fprintf(stderr, "done\n");
	return 0;
}

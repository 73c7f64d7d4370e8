// SPDX-License-Identifier: Apache-2.0
// Asks a device for more than its profile grants, or for a feature that it lacks:
//
//     asks ROW ASKED SMALLER [fallback]
//
// ROW names a limit or a feature of the table in docs/profiles.md, or one of its limits as another
// interface has it. The program asks for ASKED. If that is refused, a program with `fallback` asks
// for SMALLER, and one without gives up. For a feature, 1 uses it and 0 does without.
//
// Exit status: 0 the program got what it needs, 1 it did not, 2 the line is wrong.
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { entries = 16, segments = 32, bytes = 64 };

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_cq* cq;
static char buffer[segments * bytes] __attribute__((aligned(64)));

static struct ibv_context* open_device(const char* name) {
	struct ibv_device** list = ibv_get_device_list(NULL);
	struct ibv_context* opened = NULL;
	for (int i = 0; list && list[i]; ++i)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0) opened = ibv_open_device(list[i]);
	if (list) ibv_free_device_list(list);
	return opened;
}

static struct ibv_qp_init_attr usual(enum ibv_qp_type type) {
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = type};
	init.cap = (struct ibv_qp_cap){.max_send_wr = entries, .max_recv_wr = entries, .max_send_sge = 1, .max_recv_sge = 1};
	return init;
}

// Creates and destroys a queue pair. Returns 0 or an errno value.
static int try_qp(struct ibv_qp_init_attr init) {
	struct ibv_qp* qp = ibv_create_qp(pd, &init);
	return qp ? ibv_destroy_qp(qp) : errno;
}

static int ask_inline(unsigned n) {
	struct ibv_qp_init_attr init = usual(IBV_QPT_RC);
	init.cap.max_inline_data = n;
	return try_qp(init);
}
static int ask_send_sge(unsigned n) {
	struct ibv_qp_init_attr init = usual(IBV_QPT_RC);
	init.cap.max_send_sge = n;
	return try_qp(init);
}
static int ask_recv_sge(unsigned n) {
	struct ibv_qp_init_attr init = usual(IBV_QPT_RC);
	init.cap.max_recv_sge = n;
	return try_qp(init);
}
static int ask_wr(unsigned n) {
	struct ibv_qp_init_attr init = usual(IBV_QPT_RC);
	init.cap.max_send_wr = n;
	return try_qp(init);
}
static int ask_cqe(unsigned n) {
	struct ibv_cq* made = ibv_create_cq(context, (int)n, NULL, NULL, 0);
	return made ? ibv_destroy_cq(made) : errno;
}
static int ask_uc(unsigned use) { return try_qp(usual(use ? IBV_QPT_UC : IBV_QPT_RC)); }

static int try_srq(struct ibv_srq_attr attr) {
	struct ibv_srq_init_attr init = {.attr = attr};
	struct ibv_srq* srq = ibv_create_srq(pd, &init);
	return srq ? ibv_destroy_srq(srq) : errno;
}
static int ask_srq(unsigned use) {
	return use ? try_srq((struct ibv_srq_attr){.max_wr = entries, .max_sge = 1}) : try_qp(usual(IBV_QPT_RC));
}
static int ask_srq_wr(unsigned n) { return try_srq((struct ibv_srq_attr){.max_wr = n, .max_sge = 1}); }
static int ask_srq_sge(unsigned n) { return try_srq((struct ibv_srq_attr){.max_wr = entries, .max_sge = n}); }

static int ask_window(unsigned use) {
	if (!use) return 0;
	struct ibv_mw* window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	return window ? ibv_dealloc_mw(window) : errno;
}
static int ask_paging(unsigned use) {
	struct ibv_mr* mr = ibv_reg_mr(pd, buffer, sizeof buffer, use ? IBV_ACCESS_ON_DEMAND : 0);
	return mr ? ibv_dereg_mr(mr) : errno;
}
static int ask_resize(unsigned use) {
	struct ibv_cq* made = ibv_create_cq(context, use ? entries : 2 * entries, NULL, NULL, 0);
	if (!made) return errno;
	const int error = use ? ibv_resize_cq(made, 2 * entries) : 0;
	ibv_destroy_cq(made);
	return error;
}
static int ask_cq_ex(unsigned use) {
	if (!use) return ask_cqe(entries);
	struct ibv_cq_init_attr_ex init = {.cqe = entries, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq_ex* made = ibv_create_cq_ex(context, &init);
	return made ? ibv_destroy_cq(ibv_cq_ex_to_cq(made)) : errno;
}
static int ask_qp_ex(unsigned use) {
	const struct ibv_qp_init_attr basic = usual(IBV_QPT_RC);
	if (!use) return try_qp(basic);
	struct ibv_qp_init_attr_ex init = {.send_cq = cq, .recv_cq = cq, .cap = basic.cap, .qp_type = IBV_QPT_RC, .pd = pd};
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = IBV_QP_EX_WITH_SEND;
	struct ibv_qp* qp = ibv_create_qp_ex(context, &init);
	return qp ? ibv_destroy_qp(qp) : errno;
}

// The READs and atomics that a queue pair serves and sends.
struct reads {
	unsigned served, sent;
};

// Connects an RC queue pair with itself. Returns 0 or the errno value of ibv_modify_qp.
static int connect_to_itself(struct ibv_qp* qp, struct reads reads) {
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	a.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	int error = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (error) return error;
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = qp->qp_num;
	a.max_dest_rd_atomic = (uint8_t)reads.served;
	a.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
	if (ibv_query_gid(context, 1, 0, &a.ah_attr.grh.dgid)) return errno;
	error = ibv_modify_qp(qp, &a,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			IBV_QP_MIN_RNR_TIMER);
	if (error) return error;
	a.qp_state = IBV_QPS_RTS;
	a.max_rd_atomic = (uint8_t)reads.sent;
	a.timeout = 18;
	a.retry_cnt = 7;
	return ibv_modify_qp(qp, &a,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int ask_reads(struct reads reads) {
	struct ibv_qp_init_attr init = usual(IBV_QPT_RC);
	struct ibv_qp* qp = ibv_create_qp(pd, &init);
	if (!qp) return errno;
	const int error = connect_to_itself(qp, reads);
	ibv_destroy_qp(qp);
	return error;
}
static int ask_served(unsigned n) { return ask_reads((struct reads){.served = n, .sent = 1}); }
static int ask_sent(unsigned n) { return ask_reads((struct reads){.served = 1, .sent = n}); }

static int post_send(struct ibv_qp* qp, struct ibv_send_wr* wr) {
	struct ibv_send_wr* bad;
	return ibv_post_send(qp, wr, &bad);
}

// The same for a READ by the functions of ibv_wr_post(3).
static int post_read_extended(struct ibv_qp* qp, struct ibv_send_wr* wr) {
	struct ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(extended);
	extended->wr_flags = wr->send_flags;
	ibv_wr_rdma_read(extended, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
	ibv_wr_set_sge_list(extended, (size_t)wr->num_sge, wr->sg_list);
	return ibv_wr_complete(extended);
}

static int (*post)(struct ibv_qp*, struct ibv_send_wr*) = post_send;

// A queue pair for `post`.
static struct ibv_qp* make_qp(struct ibv_qp_init_attr* init) {
	struct ibv_qp_init_attr_ex extended = {
		.send_cq = init->send_cq, .recv_cq = init->recv_cq, .cap = init->cap, .qp_type = init->qp_type, .pd = pd};
	extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	extended.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
	return post == post_send ? ibv_create_qp(pd, init) : ibv_create_qp_ex(context, &extended);
}

// Posts one request on a queue pair that is connected with itself, and waits for its completion.
// Returns 0, the errno value of the post, or EPROTO after a completion with an error.
static int run_request(struct ibv_send_wr wr, unsigned count, int access) {
	struct ibv_qp_init_attr init = usual(IBV_QPT_RC);
	init.cap.max_send_sge = count;
	struct ibv_mr* mr = ibv_reg_mr(pd, buffer, sizeof buffer, access);
	struct ibv_mr* far = ibv_reg_mr(pd, buffer, sizeof buffer,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	struct ibv_qp* qp = mr && far ? make_qp(&init) : NULL;
	if (!qp) return errno;
	int error = connect_to_itself(qp, (struct reads){.served = 1, .sent = 1});
	struct ibv_sge receive = {.addr = (uintptr_t)buffer, .length = sizeof buffer, .lkey = far->lkey};
	struct ibv_recv_wr recv = {.sg_list = &receive, .num_sge = 1}, *bad_recv;
	if (!error) error = ibv_post_recv(qp, &recv, &bad_recv);
	struct ibv_sge list[segments];
	for (unsigned i = 0; i < count; ++i)
		list[i] = (struct ibv_sge){.addr = (uintptr_t)buffer + i * bytes, .length = 8, .lkey = mr->lkey};
	wr.sg_list = list;
	wr.num_sge = (int)count;
	wr.send_flags = IBV_SEND_SIGNALED;
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)buffer;
		wr.wr.atomic.rkey = far->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)buffer;
		wr.wr.rdma.rkey = far->rkey;
	}
	if (!error) error = post(qp, &wr);
	struct ibv_wc wc = {.opcode = IBV_WC_RECV};
	while (!error && wc.opcode & IBV_WC_RECV) {
		const int polled = ibv_poll_cq(cq, 1, &wc);
		if (polled && wc.status != IBV_WC_SUCCESS) error = EPROTO;
	}
	ibv_destroy_qp(qp);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(far);
	return error;
}

static int ask_read_sge(unsigned count) {
	return run_request((struct ibv_send_wr){.opcode = IBV_WR_RDMA_READ}, count,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}
static int ask_read_sge_extended(unsigned count) {
	post = post_read_extended;
	return ask_read_sge(count);
}
// 1: without the right that only iWARP needs.
static int ask_read_sink(unsigned use) {
	return run_request((struct ibv_send_wr){.opcode = IBV_WR_RDMA_READ}, 1,
		IBV_ACCESS_LOCAL_WRITE | (use ? 0 : IBV_ACCESS_REMOTE_WRITE));
}
static int ask_atomics(unsigned use) {
	return run_request((struct ibv_send_wr){.opcode = use ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_WRITE}, 1,
		IBV_ACCESS_LOCAL_WRITE);
}
static int ask_immediate(unsigned use) {
	return run_request((struct ibv_send_wr){.opcode = use ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND}, 1, 0);
}

static const struct {
	const char* name;
	int (*ask)(unsigned);
} rows[] = {
	{"types of queue pairs", ask_uc},
	{"max_inline_data", ask_inline},
	{"max_send_sge", ask_send_sge},
	{"max_recv_sge", ask_recv_sge},
	{"max_sge_rd", ask_read_sge},
	{"max_sge_rd of ibv_wr_post", ask_read_sge_extended},
	{"max_qp_wr", ask_wr},
	{"max_cqe", ask_cqe},
	{"max_qp_rd_atom", ask_served},
	{"max_qp_init_rd_atom", ask_sent},
	{"atomics", ask_atomics},
	{"immediate data", ask_immediate},
	{"shared receive queues", ask_srq},
	{"max_srq_wr", ask_srq_wr},
	{"max_srq_sge", ask_srq_sge},
	{"memory windows", ask_window},
	{"on-demand paging", ask_paging},
	{"ibv_resize_cq", ask_resize},
	{"ibv_create_qp_ex", ask_qp_ex},
	{"ibv_create_cq_ex", ask_cq_ex},
	{"a READ needs REMOTE_WRITE", ask_read_sink},
};

int main(int argc, char** argv) {
	if (argc < 4) return 2;
	const bool fallback = argc > 4 && strcmp(argv[4], "fallback") == 0;
	context = open_device("vb_lo");
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = pd ? ibv_create_cq(context, 2 * entries, NULL, NULL, 0) : NULL;
	if (!cq) return perror("no device vb_lo"), 1;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
		if (strcmp(rows[i].name, argv[1]) != 0) continue;
		int error = rows[i].ask((unsigned)strtoul(argv[2], NULL, 10));
		printf("asked %s: %s\n", argv[2], error ? strerror(error) : "granted");
		if (error && fallback) {
			error = rows[i].ask((unsigned)strtoul(argv[3], NULL, 10));
			printf("fell back to %s: %s\n", argv[3], error ? strerror(error) : "granted");
		}
		return error != 0;
	}
	return 2;
}

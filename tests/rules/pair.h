// SPDX-License-Identifier: Apache-2.0
// Two connected queue pairs of one process, for the programs of the rules.
//
// Each program has a mistake, and a twin without it: `programs RULE broken` and `programs RULE
// fixed`.
// The exit code of both is 0, unless a call fails that must not.
#pragma once

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MUST(condition)                                                                       \
	do {                                                                                      \
		if (!(condition)) {                                                                   \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
			exit(9);                                                                          \
		}                                                                                     \
	} while (0)

enum { memory_bytes = 1 << 20 };

struct end {
	struct ibv_cq* cq;
	struct ibv_qp* qp;
};

// The first end sends, and the second one answers.
struct pair {
	struct ibv_context* context;
	struct ibv_pd* pd;
	struct ibv_comp_channel* channel;
	struct ibv_srq* srq;
	struct ibv_mr* mr;
	char* memory;
	struct end a, b;
	union ibv_gid gid;
	int gid_index;
	uint32_t psn;
};

struct shape {
	enum ibv_qp_type type;
	int send_wr, cqe;
	bool events, shared, signal_all;
	bool extended;  // ibv_create_cq_ex
};
static const struct shape usual = {IBV_QPT_RC, 16, 64, false, false, false, false};

static int device_number;
// Whether the program looks at the limits of the device.
static bool asks_device = true;

static inline struct ibv_context* open_device(void) {
	int count = 0;
	struct ibv_device** list = ibv_get_device_list(&count);
	MUST(list && count > device_number);
	struct ibv_context* context = ibv_open_device(list[device_number]);
	ibv_free_device_list(list);
	MUST(context);
	struct ibv_device_attr attributes;
	if (asks_device) MUST(ibv_query_device(context, &attributes) == 0);
	return context;
}

static inline void make_end(struct pair* pair, struct end* end, const struct shape* shape) {
	struct ibv_cq_init_attr_ex cq = {.cqe = shape->cqe, .channel = pair->channel};
	end->cq = shape->extended ? ibv_cq_ex_to_cq(ibv_create_cq_ex(pair->context, &cq))
							  : ibv_create_cq(pair->context, shape->cqe, NULL, pair->channel, 0);
	MUST(end->cq);
	struct ibv_qp_init_attr init = {.qp_type = shape->type,
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.srq = pair->srq,
		.sq_sig_all = shape->signal_all,
		.cap = {.max_send_wr = shape->send_wr,
			.max_recv_wr = 16,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64}};
	end->qp = ibv_create_qp(pair->pd, &init);
	MUST(end->qp);
}

static inline int to_init(struct ibv_qp* qp) {
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = 0x1234567,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
	return ibv_modify_qp(qp, &init,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			(qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static inline struct ibv_qp_attr rtr_to(const struct pair* pair, uint32_t qpn, uint32_t psn) {
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.rq_psn = psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1, .port_num = 1, .grh = {.dgid = pair->gid, .sgid_index = pair->gid_index, .hop_limit = 64}}};
	return rtr;
}

enum {
	rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	rts_mask =
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
};

static inline int to_rts(struct ibv_qp* qp, uint32_t psn, int timeout) {
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = psn, .max_rd_atomic = 4};
	return ibv_modify_qp(qp, &rts, qp->qp_type == IBV_QPT_UD ? IBV_QP_STATE | IBV_QP_SQ_PSN : rts_mask);
}

static inline void connect_pair(struct pair* pair) {
	struct ibv_qp* const both[2] = {pair->a.qp, pair->b.qp};
	const uint32_t psns[2] = {pair->psn + 1000, pair->psn + 700000};
	for (int i = 0; i < 2; ++i) MUST(to_init(both[i]) == 0);
	for (int i = 0; i < 2; ++i) {
		struct ibv_qp_attr rtr = rtr_to(pair, both[1 - i]->qp_num, psns[1 - i]);
		MUST(ibv_modify_qp(both[i], &rtr, both[i]->qp_type == IBV_QPT_UD ? IBV_QP_STATE : rtr_mask) == 0);
	}
	for (int i = 0; i < 2; ++i) MUST(to_rts(both[i], psns[i], 14) == 0);
	pair->psn += 1717;
}

static inline struct pair make_unconnected(const struct shape* shape) {
	struct pair pair = {.context = open_device(), .psn = (uint32_t)getpid() % 100000};
	pair.pd = ibv_alloc_pd(pair.context);
	if (shape->events) MUST(pair.channel = ibv_create_comp_channel(pair.context));
	if (shape->shared) {
		struct ibv_srq_init_attr srq = {.attr = {.max_wr = 16, .max_sge = 2}};
		MUST(pair.srq = ibv_create_srq(pair.pd, &srq));
	}
	MUST(pair.memory = aligned_alloc(4096, memory_bytes));
	memset(pair.memory, 0, memory_bytes);
	pair.mr = ibv_reg_mr(pair.pd, pair.memory, memory_bytes,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			IBV_ACCESS_MW_BIND);
	MUST(pair.mr);
	MUST(ibv_query_gid(pair.context, 1, 0, &pair.gid) == 0);
	make_end(&pair, &pair.a, shape);
	make_end(&pair, &pair.b, shape);
	return pair;
}

static inline struct pair make_pair(const struct shape* shape) {
	struct pair pair = make_unconnected(shape);
	connect_pair(&pair);
	return pair;
}

static inline void end_pair(struct pair* pair) {
	MUST(ibv_destroy_qp(pair->a.qp) == 0 && ibv_destroy_qp(pair->b.qp) == 0);
	MUST(ibv_destroy_cq(pair->a.cq) == 0 && ibv_destroy_cq(pair->b.cq) == 0);
	if (pair->srq) MUST(ibv_destroy_srq(pair->srq) == 0);
	if (pair->channel) MUST(ibv_destroy_comp_channel(pair->channel) == 0);
	if (pair->mr) MUST(ibv_dereg_mr(pair->mr) == 0);
	MUST(ibv_dealloc_pd(pair->pd) == 0);
	MUST(ibv_close_device(pair->context) == 0);
	free(pair->memory);
}

// A request on `bytes` at `offset` of the memory, to or from `remote` in it.
static inline struct ibv_send_wr* request(
	struct pair* pair, enum ibv_wr_opcode opcode, unsigned flags, size_t offset, uint32_t bytes, size_t remote) {
	static struct ibv_sge sge;
	static struct ibv_send_wr wr;
	sge = (struct ibv_sge){(uintptr_t)pair->memory + offset, bytes, pair->mr->lkey};
	wr = (struct ibv_send_wr){.wr_id = offset, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags};
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)pair->memory + remote;
		wr.wr.atomic.rkey = pair->mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)pair->memory + remote;
		wr.wr.rdma.rkey = pair->mr->rkey;
	}
	return &wr;
}

static inline int post(struct ibv_qp* qp, struct ibv_send_wr* wr) {
	struct ibv_send_wr* bad;
	return ibv_post_send(qp, wr, &bad);
}

static inline int receive_at(struct pair* pair, struct ibv_qp* qp, uint64_t id, size_t offset, uint32_t bytes) {
	struct ibv_sge sge = {(uintptr_t)pair->memory + offset, bytes, pair->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
	return qp->srq ? ibv_post_srq_recv(qp->srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);
}

static inline void pause_ms(long ms) {
	const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&time, NULL);
}

// Polls until a completion comes, and gives its status.
static inline enum ibv_wc_status await(struct ibv_cq* cq) {
	struct ibv_wc wc;
	int count;
	while ((count = ibv_poll_cq(cq, 1, &wc)) == 0);
	MUST(count == 1);
	return wc.status;
}

// Polls in vain for this time.
static inline void poll_for(struct ibv_cq* cq, double seconds) {
	struct timespec begin, now;
	struct ibv_wc wc;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		MUST(ibv_poll_cq(cq, 1, &wc) == 0);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
}

static inline struct ibv_ah* address_of(struct pair* pair) {
	struct ibv_ah_attr attributes = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = pair->gid, .sgid_index = pair->gid_index, .hop_limit = 64}};
	struct ibv_ah* ah = ibv_create_ah(pair->pd, &attributes);
	MUST(ah);
	return ah;
}

static inline struct ibv_send_wr* datagram(struct pair* pair, struct ibv_ah* ah, uint32_t bytes) {
	struct ibv_send_wr* wr = request(pair, IBV_WR_SEND, IBV_SEND_SIGNALED, 8192, bytes, 0);
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = pair->b.qp->qp_num;
	wr->wr.ud.remote_qkey = 0x1234567;
	return wr;
}

static inline struct shape ud(void) {
	struct shape shape = usual;
	shape.type = IBV_QPT_UD;
	return shape;
}

static inline struct shape with_events(void) {
	struct shape shape = usual;
	shape.events = true;
	return shape;
}

// One event of the queue of end `a`.
static inline struct ibv_cq* fetch_event(struct pair* pair) {
	struct ibv_cq* cq;
	void* context;
	MUST(ibv_get_cq_event(pair->channel, &cq, &context) == 0);
	return cq;
}

// Memory outside of the pair's region.
static inline struct ibv_mr* map_region(struct pair* pair, size_t bytes) {
	void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(memory != MAP_FAILED);
	struct ibv_mr* mr = ibv_reg_mr(pair->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	MUST(mr);
	return mr;
}

// Connects both ends with these attributes of end `a`, and waits until the checker has compared
// them.
static inline void connect_with(struct pair* pair, enum ibv_mtu mtu, int max_rd_atomic) {
	struct end* const ends[2] = {&pair->a, &pair->b};
	for (int i = 0; i < 2; ++i) {
		MUST(to_init(ends[i]->qp) == 0 && receive_at(pair, ends[i]->qp, 1, 0, 64) == 0);
		struct ibv_qp_attr rtr = rtr_to(pair, ends[1 - i]->qp->qp_num, 100 + 1 - i);
		if (i == 0) rtr.path_mtu = mtu;
		MUST(ibv_modify_qp(ends[i]->qp, &rtr, rtr_mask) == 0);
	}
	for (int i = 0; i < 2; ++i) {
		struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
			.timeout = 14,
			.retry_cnt = 7,
			.rnr_retry = 7,
			.sq_psn = 100 + i,
			.max_rd_atomic = i ? 4 : max_rd_atomic};
		MUST(ibv_modify_qp(ends[i]->qp, &rts, rts_mask) == 0);
	}
	pause_ms(2500);
}

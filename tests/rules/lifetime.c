// SPDX-License-Identifier: Apache-2.0
// The programs of the rules about lifetime.
#include <arpa/inet.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sys/wait.h>

#include "programs.h"

static void mr_dereg_in_flight(bool fixed) {
	struct pair pair = make_pair(&usual);
	MUST(receive_at(&pair, pair.b.qp, 1, 0, 4096) == 0);
	if (fixed) {
		MUST(post(pair.a.qp, request(&pair, IBV_WR_SEND, IBV_SEND_SIGNALED, 8192, 64, 0)) == 0);
		MUST(await(pair.b.cq) == IBV_WC_SUCCESS && await(pair.a.cq) == IBV_WC_SUCCESS);
	}
	MUST(ibv_dereg_mr(pair.mr) == 0);
	pair.mr = NULL;
	end_pair(&pair);
}

// The peer learns too late that the region is gone.
static void mr_dereg_advertised(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_mr *mr = ibv_reg_mr(pair.pd, pair.memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	MUST(mr);
	struct ibv_send_wr *wr = request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0);
	wr->wr.rdma.rkey = mr->rkey;
	if (!fixed) MUST(ibv_dereg_mr(mr) == 0);
	MUST(post(pair.a.qp, wr) == 0);
	MUST((await(pair.a.cq) == IBV_WC_SUCCESS) == fixed);
	if (fixed) MUST(ibv_dereg_mr(mr) == 0);
	end_pair(&pair);
}

static void mem_freed_while_registered(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_mr *mr = map_region(&pair, 65536);
	if (!fixed) munmap(mr->addr, 65536);
	struct ibv_send_wr *wr = request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0);
	wr->wr.rdma.remote_addr = (uintptr_t)mr->addr;
	wr->wr.rdma.rkey = mr->rkey;
	MUST(post(pair.a.qp, wr) == 0);
	MUST((await(pair.a.cq) == IBV_WC_SUCCESS) == fixed);
	MUST(ibv_dereg_mr(mr) == 0);
	end_pair(&pair);
}

// A region whose memory was mapped anew at the same address, or that was deregistered before that.
static struct ibv_mr *map_again(struct pair *pair, bool deregistered) {
	struct ibv_mr *mr = map_region(pair, 65536);
	void *const memory = mr->addr;
	if (deregistered) MUST(ibv_dereg_mr(mr) == 0);
	MUST(munmap(memory, 65536) == 0);
	MUST(mmap(memory, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
		memory);
	return deregistered ? ibv_reg_mr(pair->pd, memory, 65536, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) : mr;
}

static void mem_remapped_while_registered(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_mr *mr = map_again(&pair, fixed);
	struct ibv_send_wr *wr = request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0);
	wr->wr.rdma.remote_addr = (uintptr_t)mr->addr;
	wr->wr.rdma.rkey = mr->rkey;
	MUST(post(pair.a.qp, wr) == 0);
	MUST(await(pair.a.cq) == IBV_WC_SUCCESS);
	MUST(ibv_dereg_mr(mr) == 0);
	end_pair(&pair);
}

static void mem_given_back_while_registered(bool fixed) {
	struct pair pair = make_pair(&usual);
	const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	char *pool = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(pool != MAP_FAILED);
	struct ibv_mr *mr = ibv_reg_mr(pair.pd, pool, 1 << 20, rights);
	MUST(mr);
	if (fixed) MUST(ibv_dereg_mr(mr) == 0);
	MUST(madvise(pool + (1 << 19), 1 << 19, MADV_DONTNEED) == 0);
	if (fixed) MUST(mr = ibv_reg_mr(pair.pd, pool, 1 << 20, rights));
	for (int upper = 0; upper < 2; ++upper) {
		struct ibv_send_wr *wr = request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0);
		wr->wr.rdma.remote_addr = (uintptr_t)pool + (upper ? 700000 : 4096);
		wr->wr.rdma.rkey = mr->rkey;
		MUST(post(pair.a.qp, wr) == 0 && await(pair.a.cq) == IBV_WC_SUCCESS);
	}
	MUST(ibv_dereg_mr(mr) == 0 && munmap(pool, 1 << 20) == 0);
	end_pair(&pair);
}

static void mr_overlap_stale_cache(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_mr *older = map_again(&pair, fixed);
	struct ibv_mr *newer = ibv_reg_mr(pair.pd, older->addr, 65536, IBV_ACCESS_LOCAL_WRITE);
	MUST(newer && ibv_dereg_mr(newer) == 0 && ibv_dereg_mr(older) == 0);
	end_pair(&pair);
}

static void mw_mr_order(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_mw *window = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	MUST(window);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {pair.mr, (uintptr_t)pair.memory, 4096, IBV_ACCESS_REMOTE_WRITE}};
	MUST(ibv_bind_mw(pair.a.qp, window, &bind) == 0 && await(pair.a.cq) == IBV_WC_SUCCESS);
	if (!fixed) MUST(ibv_dereg_mr(pair.mr) == EBUSY);
	MUST(ibv_dealloc_mw(window) == 0);
	end_pair(&pair);
}

static void pd_destroy_order(bool fixed) {
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	char memory[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, 0);
	MUST(mr);
	if (fixed) ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);  // the result is ignored
	if (!fixed) ibv_dereg_mr(mr);
	ibv_close_device(context);
}

static void ah_destroy_in_flight(bool fixed) {
	const struct shape shape = ud();
	struct pair pair = make_pair(&shape);
	struct ibv_ah *ah = address_of(&pair);
	MUST(post(pair.a.qp, datagram(&pair, ah, 64)) == 0);
	if (fixed) await(pair.a.cq);
	MUST(ibv_destroy_ah(ah) == 0);
	if (!fixed) await(pair.a.cq);
	end_pair(&pair);
}

static void one_event(struct pair *pair) {
	MUST(ibv_req_notify_cq(pair->a.cq, 0) == 0);
	MUST(post(pair->a.qp, request(pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0)) == 0);
	MUST(fetch_event(pair) == pair->a.cq);
	await(pair->a.cq);
}

static void ack_missing(bool fixed) {
	const struct shape shape = with_events();
	struct pair pair = make_pair(&shape);
	one_event(&pair);
	if (fixed) ibv_ack_cq_events(pair.a.cq, 1);
	alarm(fixed ? 0 : 8);  // the call never returns
	end_pair(&pair);
}

static void ack_wrong_cq(bool fixed) {
	const struct shape shape = with_events();
	struct pair pair = make_pair(&shape);
	one_event(&pair);
	ibv_ack_cq_events(fixed ? pair.a.cq : pair.b.cq, 1);
	if (!fixed) _Exit(0);  // destroying either of them would wait for ever
	end_pair(&pair);
}

static void qp_destroy_with_work(bool fixed) {
	struct pair pair = make_pair(&usual);
	MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0)) == 0);
	if (fixed) await(pair.a.cq);
	end_pair(&pair);
}

// The receiver is destroyed in the middle of a message, whose second half does not exist.
static void srq_qp_no_last_wqe(bool fixed) {
	enum { half = 256 << 10 };
	struct shape shape = usual;
	shape.shared = true;
	struct pair pair = make_pair(&shape);
	MUST(receive_at(&pair, pair.b.qp, 1, 0, 2 * half) == 0);
	struct ibv_mr *mr = map_region(&pair, 2 * half);
	if (!fixed) munmap((char *)mr->addr + half, half);
	struct ibv_send_wr *wr = request(&pair, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 0, 0);
	*wr->sg_list = (struct ibv_sge){(uintptr_t)mr->addr, 2 * half, mr->lkey};
	MUST(post(pair.a.qp, wr) == 0);
	MUST((await(pair.a.cq) == IBV_WC_SUCCESS) == fixed);
	if (fixed) await(pair.b.cq);
	MUST(ibv_dereg_mr(mr) == 0);
	end_pair(&pair);
}

static void *wait_for_event(void *channel) {
	struct ibv_cq *cq;
	void *context;
	ibv_get_cq_event(channel, &cq, &context);
	return NULL;
}

static void event_after_destroy_thread(bool fixed) {
	struct shape shape = with_events();
	struct pair pair = make_pair(&shape);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(pair.context);
	MUST(channel);
	pthread_t waiter;
	MUST(pthread_create(&waiter, NULL, wait_for_event, channel) == 0);
	pause_ms(300);
	if (fixed) MUST(pthread_cancel(waiter) == 0 && pthread_join(waiter, NULL) == 0);
	MUST(ibv_destroy_comp_channel(channel) == 0);
	if (!fixed) _Exit(0);
	end_pair(&pair);
}

static void use_after_destroy(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_qp *qp = pair.a.qp;
	struct ibv_send_wr *wr = request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0);
	if (fixed) {
		MUST(post(qp, wr) == 0);
		await(pair.a.cq);
		return end_pair(&pair);
	}
	end_pair(&pair);
	MUST(post(qp, wr) != 0);
}

static void fork_after_reg(bool fixed) {
	if (fixed) MUST(ibv_fork_init() == 0);
	struct pair pair = make_pair(&usual);
	const pid_t child = fork();
	if (child == 0) _Exit(0);
	MUST(child > 0 && waitpid(child, NULL, 0) == child);
	end_pair(&pair);
}

static void leak_at_exit(bool fixed) {
	struct pair pair = make_pair(&usual);
	for (int i = 0; i < 20; ++i) {
		struct ibv_mr *mr = ibv_reg_mr(pair.pd, pair.memory, 4096, 0);
		MUST(mr);
		if (fixed) ibv_dereg_mr(mr);
	}
	if (fixed) end_pair(&pair);
}

static struct rdma_cm_id *await_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type) {
	struct rdma_cm_event *event;
	MUST(rdma_get_cm_event(channel, &event) == 0 && event->event == type);
	struct rdma_cm_id *id = event->id;
	MUST(rdma_ack_cm_event(event) == 0);
	return id;
}

static void create_qp(struct rdma_cm_id *id) {
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	MUST(rdma_create_qp(id, NULL, &init) == 0);
}

// Both ends of a connection are in this process.
static void cm_destroy_order(bool fixed) {
	struct rdma_event_channel *channel = rdma_create_event_channel();
	MUST(channel);
	struct rdma_cm_id *listener, *active;
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	MUST(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_bind_addr(listener, (struct sockaddr *)&address) == 0 && rdma_listen(listener, 1) == 0);
	address.sin_port = rdma_get_src_port(listener);
	MUST(rdma_create_id(channel, &active, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(active, NULL, (struct sockaddr *)&address, 2000) == 0);
	await_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(rdma_resolve_route(active, 2000) == 0);
	await_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	create_qp(active);
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7,
		.rnr_retry_count = 7};
	MUST(rdma_connect(active, &param) == 0);
	struct rdma_cm_id *passive = await_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	create_qp(passive);
	MUST(rdma_accept(passive, &param) == 0);
	for (int i = 0; i < 2; ++i) await_event(channel, RDMA_CM_EVENT_ESTABLISHED);
	MUST(rdma_disconnect(active) == 0);
	if (fixed) rdma_destroy_qp(active);
	MUST(rdma_destroy_id(active) == 0);
	rdma_destroy_qp(passive);
	MUST(rdma_destroy_id(passive) == 0 && rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(channel);
}

const struct program lifetime[] = {
	PROGRAM(mr_dereg_in_flight), PROGRAM(mr_dereg_advertised), PROGRAM(mem_freed_while_registered),
	PROGRAM(mem_remapped_while_registered), PROGRAM(mem_given_back_while_registered),
	PROGRAM(mr_overlap_stale_cache),
	PROGRAM(mw_mr_order), PROGRAM(pd_destroy_order), PROGRAM(ah_destroy_in_flight),
	PROGRAM(ack_missing), PROGRAM(ack_wrong_cq), PROGRAM(qp_destroy_with_work),
	PROGRAM(srq_qp_no_last_wqe), PROGRAM(event_after_destroy_thread), PROGRAM(use_after_destroy),
	PROGRAM(fork_after_reg), PROGRAM(leak_at_exit), PROGRAM(cm_destroy_order),
	{0},
};

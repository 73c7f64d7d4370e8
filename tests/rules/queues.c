// SPDX-License-Identifier: Apache-2.0
// The programs of the rules about queues and events.
#include <pthread.h>

#include "programs.h"

static void sq_unsignaled_full(bool fixed) {
	struct pair pair = make_pair(&usual);
	for (int i = 0; i < 100; ++i) {
		const unsigned flags = fixed && i % 4 == 3 ? IBV_SEND_SIGNALED : 0;
		const int error = post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, flags, 8192, 64, 0));
		if (!fixed && error == ENOMEM) break;
		MUST(error == 0);
		if (flags) await(pair.a.cq);
	}
	end_pair(&pair);
}

static void post_error_ignored(bool fixed) {
	struct pair pair = make_pair(&usual);
	for (int i = 0; i < 17; ++i) {
		if (fixed && i == 16) await(pair.a.cq);
		const int error = post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0));
		MUST(error == 0 || !fixed);
	}
	for (int i = 0; i < 16; ++i) await(pair.a.cq);
	if (!fixed) poll_for(pair.a.cq, 4);  // for the completion of the 17th
	end_pair(&pair);
}

static void cq_overrun(bool fixed) {
	struct shape shape = usual;
	shape.cqe = 4;
	struct pair pair = make_pair(&shape);
	for (int i = 0; i < 8; ++i) {
		MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0)) == 0);
		if (fixed) await(pair.a.cq);
	}
	if (!fixed) {
		struct ibv_async_event event;
		MUST(ibv_get_async_event(pair.context, &event) == 0 && event.event_type == IBV_EVENT_CQ_ERR);
		ibv_ack_async_event(&event);
		_Exit(0);
	}
	end_pair(&pair);
}

static void cq_too_small(bool fixed) {
	struct shape shape = usual;
	shape.cqe = fixed ? 64 : 8;
	struct pair pair = make_pair(&shape);
	for (int i = 0; i < 12; ++i) MUST(receive_at(&pair, pair.b.qp, i, 64 * i, 64) == 0);
	end_pair(&pair);
}

static void rq_starved_rnr(bool fixed) {
	struct pair pair = make_pair(&usual);
	if (fixed) MUST(receive_at(&pair, pair.b.qp, 1, 0, 64) == 0);
	MUST(post(pair.a.qp, request(&pair, IBV_WR_SEND, IBV_SEND_SIGNALED, 8192, 64, 0)) == 0);
	if (!fixed) {
		poll_for(pair.a.cq, 0.2);
		MUST(receive_at(&pair, pair.b.qp, 1, 0, 64) == 0);
	}
	await(pair.a.cq);
	await(pair.b.cq);
	end_pair(&pair);
}

static void notify_lost_wakeup(bool fixed) {
	const struct shape shape = with_events();
	struct pair pair = make_pair(&shape);
	struct ibv_wc wc;
	MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0)) == 0);
	MUST(ibv_poll_cq(pair.b.cq, 1, &wc) == 0);
	// The completion is there when the queue is armed.
	pause_ms(100);
	MUST(ibv_req_notify_cq(pair.a.cq, 0) == 0);
	if (!fixed || ibv_poll_cq(pair.a.cq, 1, &wc) == 0) {
		ibv_ack_cq_events(fetch_event(&pair), 1);
		await(pair.a.cq);
	}
	end_pair(&pair);
}

static void notify_not_armed(bool fixed) {
	const struct shape shape = with_events();
	struct pair pair = make_pair(&shape);
	if (fixed) MUST(ibv_req_notify_cq(pair.a.cq, 0) == 0);
	MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0)) == 0);
	alarm(fixed ? 20 : 8);  // the call never returns
	ibv_ack_cq_events(fetch_event(&pair), 1);
	await(pair.a.cq);
	end_pair(&pair);
}

static void signaled_flag_missing(bool fixed) {
	struct shape shape = usual;
	shape.signal_all = fixed;
	struct pair pair = make_pair(&shape);
	MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, 0, 8192, 64, 0)) == 0);
	if (fixed) await(pair.a.cq);
	else poll_for(pair.a.cq, 4);
	end_pair(&pair);
}

static void recv_on_srq_qp(bool fixed) {
	struct shape shape = usual;
	shape.shared = true;
	struct pair pair = make_pair(&shape);
	struct ibv_sge sge = {(uintptr_t)pair.memory, 64, pair.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	if (fixed) MUST(ibv_post_srq_recv(pair.srq, &wr, &bad) == 0);
	else MUST(ibv_post_recv(pair.b.qp, &wr, &bad) != 0);
	end_pair(&pair);
}

static void post_in_wrong_state(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	if (fixed) MUST(to_init(pair.a.qp) == 0);
	MUST(receive_at(&pair, pair.a.qp, 1, 0, 64) == (fixed ? 0 : EINVAL));
	end_pair(&pair);
}

static void post_in_err(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct ibv_send_wr *wr = request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0);
	if (fixed) MUST(post(pair.a.qp, wr) == 0 && await(pair.a.cq) == IBV_WC_SUCCESS);
	MUST(ibv_modify_qp(pair.a.qp, &error, IBV_QP_STATE) == 0);
	if (!fixed) MUST(post(pair.a.qp, wr) == 0 && await(pair.a.cq) == IBV_WC_WR_FLUSH_ERR);
	end_pair(&pair);
}

static void inline_too_long(bool fixed) {
	struct pair pair = make_pair(&usual);
	const int error = post(pair.a.qp,
		request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE | IBV_SEND_SIGNALED, 8192, fixed ? 32 : 2048, 0));
	MUST((error == 0) == fixed);
	if (fixed) await(pair.a.cq);
	end_pair(&pair);
}

static void inline_bad_opcode(bool fixed) {
	struct pair pair = make_pair(&usual);
	const unsigned flags = IBV_SEND_SIGNALED | (fixed ? 0 : IBV_SEND_INLINE);
	MUST((post(pair.a.qp, request(&pair, IBV_WR_RDMA_READ, flags, 8192, 32, 0)) == 0) == fixed);
	if (fixed) await(pair.a.cq);
	end_pair(&pair);
}

// The longer message takes the same way as the shorter one, but is too long for inline data.
static void inline_lkey_trust(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_send_wr *wr = request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_INLINE, 8192, 32, 0);
	wr->sg_list->lkey = 0;
	MUST(post(pair.a.qp, wr) == 0 && await(pair.a.cq) == IBV_WC_SUCCESS);
	wr->send_flags = IBV_SEND_SIGNALED;
	wr->sg_list->length = 4000;
	if (fixed) wr->sg_list->lkey = pair.mr->lkey;
	MUST(post(pair.a.qp, wr) == 0);
	MUST((await(pair.a.cq) == IBV_WC_SUCCESS) == fixed);
	end_pair(&pair);
}

static void wr_start_nesting(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_RC, .send_cq = pair.a.cq, .recv_cq = pair.a.cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = pair.pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
	MUST(ibv_destroy_qp(pair.a.qp) == 0);
	MUST(pair.a.qp = ibv_create_qp_ex(pair.context, &init));
	connect_pair(&pair);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair.a.qp);
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, pair.mr->rkey, (uintptr_t)pair.memory);
	ibv_wr_set_sge(qp, pair.mr->lkey, (uintptr_t)pair.memory + 8192, 64);
	if (!fixed) post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, 0, 8192, 64, 0));
	MUST(ibv_wr_complete(qp) == 0);
	await(pair.a.cq);
	if (fixed) {
		MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0)) == 0);
		await(pair.a.cq);
	}
	end_pair(&pair);
}

static struct pair *shared_pair;
static bool stop_posting;

static void *post_for_ever(void *lock) {
	while (!__atomic_load_n(&stop_posting, __ATOMIC_SEQ_CST)) {
		struct ibv_sge sge = {(uintptr_t)shared_pair->memory + 8192, 8, shared_pair->mr->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {(uintptr_t)shared_pair->memory, shared_pair->mr->rkey}};
		struct ibv_wc wc[4];
		if (lock) pthread_mutex_lock(lock);
		post(shared_pair->a.qp, &wr);
		ibv_poll_cq(shared_pair->a.cq, 4, wc);
		if (lock) pthread_mutex_unlock(lock);
	}
	return NULL;
}

static void thread_unsafe_td(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	struct ibv_td_init_attr no_attributes = {0};
	struct ibv_td *td = ibv_alloc_td(pair.context, &no_attributes);
	MUST(td);
	struct ibv_parent_domain_init_attr attributes = {.pd = pair.pd, .td = td};
	struct ibv_pd *parent = ibv_alloc_parent_domain(pair.context, &attributes);
	MUST(parent);
	MUST(ibv_destroy_qp(pair.a.qp) == 0 && ibv_destroy_cq(pair.a.cq) == 0);
	struct ibv_pd *const pd = pair.pd;
	pair.pd = parent;
	make_end(&pair, &pair.a, &usual);
	pair.pd = pd;
	connect_pair(&pair);
	shared_pair = &pair;
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_t threads[2];
	for (int i = 0; i < 2; ++i) MUST(pthread_create(&threads[i], NULL, post_for_ever, fixed ? &lock : NULL) == 0);
	pause_ms(1000);
	__atomic_store_n(&stop_posting, true, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
	_Exit(0);
}

static void rd_atomic_mismatch(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	connect_with(&pair, IBV_MTU_1024, fixed ? 4 : 16);
	end_pair(&pair);
}

// Another timeout.
static void sqd_misuse(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_qp_attr to_sqd = {.qp_state = IBV_QPS_SQD}, to_rts_again = {.qp_state = IBV_QPS_RTS};
	struct ibv_qp_attr change = {.timeout = 16};
	if (fixed) MUST(ibv_modify_qp(pair.a.qp, &to_sqd, IBV_QP_STATE) == 0);
	MUST((ibv_modify_qp(pair.a.qp, &change, IBV_QP_TIMEOUT) == 0) == fixed);
	if (fixed) MUST(ibv_modify_qp(pair.a.qp, &to_rts_again, IBV_QP_STATE) == 0);
	end_pair(&pair);
}

static int write_signaled(struct pair *pair) {
	return post(pair->a.qp, request(pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0));
}

// The peer answers late, so that 17 requests are open at once.
static void sq_depth_by_luck(bool fixed) {
	struct shape shape = usual;
	shape.send_wr = fixed ? 17 : 16;
	struct pair pair = make_unconnected(&shape);
	struct ibv_qp *const a = pair.a.qp, *const b = pair.b.qp;
	MUST(to_init(a) == 0 && to_init(b) == 0);
	struct ibv_qp_attr rtr = rtr_to(&pair, b->qp_num, 700);
	MUST(ibv_modify_qp(a, &rtr, rtr_mask) == 0 && to_rts(a, 900, 14) == 0);
	for (int i = 0; i < 17; ++i) MUST((write_signaled(&pair) == 0) == (fixed || i < 16));
	if (fixed) {
		rtr = rtr_to(&pair, a->qp_num, 900);
		MUST(ibv_modify_qp(b, &rtr, rtr_mask) == 0 && to_rts(b, 700, 14) == 0);
		for (int i = 0; i < 17; ++i) MUST(await(pair.a.cq) == IBV_WC_SUCCESS);
	}
	end_pair(&pair);
}

static void send_completion_means_slot(bool fixed) {
	struct pair pair = make_pair(&usual);
	for (int i = 0; i < 16; ++i) MUST(write_signaled(&pair) == 0);
	// All have completed.
	pause_ms(200);
	if (fixed) MUST(await(pair.a.cq) == IBV_WC_SUCCESS);
	MUST((write_signaled(&pair) == 0) == fixed);
	for (int i = 0; fixed && i < 16; ++i) MUST(await(pair.a.cq) == IBV_WC_SUCCESS);
	end_pair(&pair);
}

const struct program queues[] = {
	PROGRAM(sq_unsignaled_full), PROGRAM(post_error_ignored), PROGRAM(cq_overrun),
	PROGRAM(cq_too_small), PROGRAM(rq_starved_rnr), PROGRAM(notify_lost_wakeup),
	PROGRAM(notify_not_armed), PROGRAM(signaled_flag_missing), PROGRAM(recv_on_srq_qp),
	PROGRAM(post_in_wrong_state), PROGRAM(post_in_err), PROGRAM(inline_too_long),
	PROGRAM(inline_bad_opcode), PROGRAM(inline_lkey_trust), PROGRAM(wr_start_nesting),
	PROGRAM(thread_unsafe_td),
	PROGRAM(rd_atomic_mismatch), PROGRAM(sqd_misuse), PROGRAM(sq_depth_by_luck),
	PROGRAM(send_completion_means_slot),
	{0},
};

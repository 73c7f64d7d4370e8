// One function for each rule of `verbena run --check`: with the mistake, or without it.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "pair.h"

// ---- Lifetime

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

static struct ibv_mr *map_region(struct pair *pair, size_t bytes);

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

static struct ibv_ah *address_of(struct pair *pair) {
	struct ibv_ah_attr attributes = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = pair->gid, .sgid_index = pair->gid_index, .hop_limit = 64}};
	struct ibv_ah *ah = ibv_create_ah(pair->pd, &attributes);
	MUST(ah);
	return ah;
}

static struct ibv_send_wr *datagram(struct pair *pair, struct ibv_ah *ah, uint32_t bytes) {
	struct ibv_send_wr *wr = request(pair, IBV_WR_SEND, IBV_SEND_SIGNALED, 8192, bytes, 0);
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = pair->b.qp->qp_num;
	wr->wr.ud.remote_qkey = 0x1234567;
	return wr;
}

static struct shape ud(void) {
	struct shape shape = usual;
	shape.type = IBV_QPT_UD;
	return shape;
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

static struct shape with_events(void) {
	struct shape shape = usual;
	shape.events = true;
	return shape;
}

// One event of the queue of end `a`.
static struct ibv_cq *fetch_event(struct pair *pair) {
	struct ibv_cq *cq;
	void *context;
	MUST(ibv_get_cq_event(pair->channel, &cq, &context) == 0);
	return cq;
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

// Memory outside of the pair's region.
static struct ibv_mr *map_region(struct pair *pair, size_t bytes) {
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(memory != MAP_FAILED);
	struct ibv_mr *mr = ibv_reg_mr(pair->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	MUST(mr);
	return mr;
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

// ---- Buffers

static int repetitions = 1;

static void send_buffer_modified(bool fixed) {
	struct pair pair = make_pair(&usual);
	for (int i = 0; i < repetitions; ++i) {
		MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 65536, 65536, 0)) == 0);
		if (!fixed) memset(pair.memory + 65536, 'a' + i, 65536);
		MUST(await(pair.a.cq) == IBV_WC_SUCCESS);
		if (fixed) memset(pair.memory + 65536, 'a' + i, 65536);
	}
	end_pair(&pair);
}

static void send_buffer_freed(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_mr *mr = map_region(&pair, 65536);
	struct ibv_send_wr *wr = request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0, 4096);
	*wr->sg_list = (struct ibv_sge){(uintptr_t)mr->addr, 65536, mr->lkey};
	MUST(post(pair.a.qp, wr) == 0);
	if (!fixed) munmap(mr->addr, 65536);
	await(pair.a.cq);
	MUST(ibv_dereg_mr(mr) == 0);
	end_pair(&pair);
}

static __attribute__((noinline)) void post_from_stack(struct pair *pair, bool wait) {
	volatile char local[256];
	for (size_t i = 0; i < sizeof local; ++i) local[i] = 1;
	struct ibv_mr *mr = ibv_reg_mr(pair->pd, (void *)local, sizeof local, 0);
	MUST(mr);
	struct ibv_send_wr *wr = request(pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 64, 4096);
	*wr->sg_list = (struct ibv_sge){(uintptr_t)local, sizeof local, mr->lkey};
	MUST(post(pair->a.qp, wr) == 0);
	if (wait) await(pair->a.cq);
}

static void stack_buffer_in_flight(bool fixed) {
	struct pair pair = make_pair(&usual);
	post_from_stack(&pair, fixed);
	if (!fixed) await(pair.a.cq);
	_Exit(0);
}

static void recv_overlap(bool fixed) {
	struct pair pair = make_pair(&usual);
	for (int i = 0; i < 2; ++i) MUST(receive_at(&pair, pair.b.qp, i, fixed ? i * 64 : 0, 64) == 0);
	// Both messages have arrived before the first receive is polled.
	for (int i = 0; i < 2; ++i) {
		MUST(post(pair.a.qp, request(&pair, IBV_WR_SEND, IBV_SEND_SIGNALED, 8192, 64, 0)) == 0);
		await(pair.a.cq);
	}
	await(pair.b.cq);
	await(pair.b.cq);
	end_pair(&pair);
}

static void sge_overlap_one_wr(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_send_wr *wr = request(&pair, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, 64, 8192);
	struct ibv_sge list[2] = {wr->sg_list[0], wr->sg_list[0]};
	list[1].addr += fixed ? 64 : 8;
	wr->sg_list = list;
	wr->num_sge = 2;
	MUST(post(pair.a.qp, wr) == 0);
	await(pair.a.cq);
	end_pair(&pair);
}

static void ud_grh_missing(bool fixed) {
	const struct shape shape = ud();
	struct pair pair = make_pair(&shape);
	MUST(receive_at(&pair, pair.b.qp, 1, 0, fixed ? 40 + 32 : 32) == 0);
	end_pair(&pair);
}

static void remote_write_on_posted(bool fixed) {
	struct pair pair = make_pair(&usual);
	MUST(receive_at(&pair, pair.b.qp, 1, 0, 4096) == 0);
	MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, fixed ? 4096 : 1024)) == 0);
	await(pair.a.cq);
	end_pair(&pair);
}

static void lkey_for_rkey(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_send_wr *wr = request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, 64, 0);
	if (!fixed) wr->wr.rdma.rkey = pair.mr->lkey;
	MUST(post(pair.a.qp, wr) == 0);
	MUST((await(pair.a.cq) == IBV_WC_SUCCESS) == fixed);
	end_pair(&pair);
}

// The address sanitizer finds the mistake of this one.
static void recv_read_early(bool fixed) {
	struct pair pair = make_pair(&usual);
	MUST(receive_at(&pair, pair.b.qp, 1, 0, 64) == 0);
	MUST(post(pair.a.qp, request(&pair, IBV_WR_SEND, IBV_SEND_SIGNALED, 8192, 64, 0)) == 0);
	if (fixed) await(pair.b.cq);
	if (pair.memory[8]) puts("data");
	if (!fixed) await(pair.b.cq);
	await(pair.a.cq);
	end_pair(&pair);
}

static void read_sink_touched(bool fixed) {
	struct pair pair = make_pair(&usual);
	MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, 64, 8192)) == 0);
	if (fixed) await(pair.a.cq);
	memset(pair.memory, 0, 16);
	if (!fixed) await(pair.a.cq);
	end_pair(&pair);
}

// ---- Queues and events

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

// Connects both ends with these attributes of end `a`, and waits until the checker has compared
// them.
static void connect_with(struct pair *pair, enum ibv_mtu mtu, int max_rd_atomic) {
	struct end *const ends[2] = {&pair->a, &pair->b};
	for (int i = 0; i < 2; ++i) {
		MUST(to_init(ends[i]->qp) == 0 && receive_at(pair, ends[i]->qp, 1, 0, 64) == 0);
		struct ibv_qp_attr rtr = rtr_to(pair, ends[1 - i]->qp->qp_num, 100 + 1 - i);
		if (i == 0) rtr.path_mtu = mtu;
		MUST(ibv_modify_qp(ends[i]->qp, &rtr, rtr_mask) == 0);
	}
	for (int i = 0; i < 2; ++i) {
		struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
			.sq_psn = 100 + i, .max_rd_atomic = i ? 4 : max_rd_atomic};
		MUST(ibv_modify_qp(ends[i]->qp, &rts, rts_mask) == 0);
	}
	pause_ms(2500);
}

static void rd_atomic_mismatch(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	connect_with(&pair, IBV_MTU_1024, fixed ? 4 : 16);
	end_pair(&pair);
}

// ---- Ordering

static void read_then_write_nofence(bool fixed) {
	struct pair pair = make_pair(&usual);
	MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_READ, 0, 0, 64, 8192)) == 0);
	const unsigned flags = IBV_SEND_SIGNALED | (fixed ? IBV_SEND_FENCE : 0);
	MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, flags, 0, 64, 12288)) == 0);
	await(pair.a.cq);
	end_pair(&pair);
}

static void fence_expects_write(bool fixed) {
	struct pair pair = make_pair(&usual);
	MUST(post(pair.a.qp, request(&pair, fixed ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 0, 0, 64, 8192)) == 0);
	MUST(post(pair.a.qp,
			 request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_FENCE, 4096, 64, 12288)) == 0);
	await(pair.a.cq);
	end_pair(&pair);
}

static void atomic_unaligned(bool fixed) {
	struct pair pair = make_pair(&usual);
	MUST(post(pair.a.qp,
			 request(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_SEND_SIGNALED, 0, 8, fixed ? 8192 : 8196)) == 0);
	MUST((await(pair.a.cq) == IBV_WC_SUCCESS) == fixed);
	end_pair(&pair);
}

static void add_remotely(struct pair *pair) {
	MUST(post(pair->a.qp, request(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_SEND_SIGNALED, 0, 8, 8192)) == 0);
	MUST(await(pair->a.cq) == IBV_WC_SUCCESS);
}

static void atomic_vs_cpu(bool fixed) {
	struct pair pair = make_pair(&usual);
	uint64_t *word = (uint64_t *)(pair.memory + 8192);
	for (int i = 0; i < 10; ++i) {
		add_remotely(&pair);
		__atomic_fetch_add(fixed ? word + 1 : word, 1, __ATOMIC_SEQ_CST);
	}
	end_pair(&pair);
}

static void atomic_vs_write(bool fixed) {
	struct pair pair = make_pair(&usual);
	add_remotely(&pair);
	MUST(post(pair.b.qp, request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 16384, 8, fixed ? 8200 : 8192)) == 0);
	MUST(await(pair.b.cq) == IBV_WC_SUCCESS);
	end_pair(&pair);
}

// ---- Portability and security

static void access_write_without_local(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct ibv_mr *mr =
		ibv_reg_mr(pair.pd, pair.memory, 64, IBV_ACCESS_REMOTE_WRITE | (fixed ? IBV_ACCESS_LOCAL_WRITE : 0));
	MUST((mr != NULL) == fixed);
	if (mr) ibv_dereg_mr(mr);
	end_pair(&pair);
}

static void no_grh(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	MUST(to_init(pair.a.qp) == 0);
	struct ibv_qp_attr rtr = rtr_to(&pair, pair.b.qp->qp_num, 1);
	rtr.ah_attr.is_global = fixed;
	MUST((ibv_modify_qp(pair.a.qp, &rtr, rtr_mask) == 0) == fixed);
	end_pair(&pair);
}

static void mtu_not_negotiated(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	connect_with(&pair, fixed ? IBV_MTU_1024 : IBV_MTU_512, 4);
	end_pair(&pair);
}

static void comp_vector(bool fixed) {
	struct ibv_context *context = open_device();
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, fixed ? 0 : context->num_comp_vectors);
	MUST((cq != NULL) == fixed);
	if (cq) ibv_destroy_cq(cq);
	ibv_close_device(context);
}

// No device has room for 64 KiB of inline data.
static void cap_over_profile(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .send_cq = pair.a.cq, .recv_cq = pair.a.cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 65536}};
	MUST(!ibv_create_qp(pair.pd, &init));
	if (fixed) {
		init.cap.max_inline_data = 0;
		struct ibv_qp *qp = ibv_create_qp(pair.pd, &init);
		MUST(qp && ibv_destroy_qp(qp) == 0);
	}
	end_pair(&pair);
}

static bool is_link_local(const union ibv_gid *gid) { return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80; }

// Needs a device with a link-local GID and a routable one.
static void gid_index_0(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	union ibv_gid gid;
	for (pair.gid_index = 0; pair.gid_index < 16; ++pair.gid_index)
		if (ibv_query_gid(pair.context, 1, pair.gid_index, &gid) == 0 && (gid.raw[0] || gid.raw[11]) &&
			is_link_local(&gid) != fixed)
			break;
	MUST(pair.gid_index < 16);
	MUST(to_init(pair.a.qp) == 0);
	struct ibv_qp_attr rtr = rtr_to(&pair, pair.b.qp->qp_num, 1);
	rtr.ah_attr.grh.dgid = gid;
	MUST(ibv_modify_qp(pair.a.qp, &rtr, rtr_mask) == 0);
	end_pair(&pair);
}

static void reset_to_reset(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	if (!fixed) MUST(ibv_modify_qp(pair.a.qp, &reset, IBV_QP_STATE) == 0);
	end_pair(&pair);
}

static void timeout_zero(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	MUST(to_init(pair.a.qp) == 0);
	struct ibv_qp_attr rtr = rtr_to(&pair, pair.b.qp->qp_num, 1);
	MUST(ibv_modify_qp(pair.a.qp, &rtr, rtr_mask) == 0 && to_rts(pair.a.qp, 1, fixed ? 14 : 0) == 0);
	end_pair(&pair);
}

static void max_msg_implicit(bool fixed) {
	const struct shape shape = ud();
	struct pair pair = make_pair(&shape);
	struct ibv_ah *ah = address_of(&pair);
	MUST(receive_at(&pair, pair.b.qp, 1, 0, 8192) == 0);
	const int error = post(pair.a.qp, datagram(&pair, ah, fixed ? 64 : 70000));
	if (!error) await(pair.a.cq);
	MUST(ibv_destroy_ah(ah) == 0);
	end_pair(&pair);
}

static void psn_constant(bool fixed) {
	struct pair pair = make_unconnected(&usual);
	for (int i = 0; i < 2; ++i) {
		struct end *end = i ? &pair.b : &pair.a;
		MUST(to_init(end->qp) == 0);
		struct ibv_qp_attr rtr = rtr_to(&pair, (i ? &pair.a : &pair.b)->qp->qp_num, 1);
		MUST(ibv_modify_qp(end->qp, &rtr, rtr_mask) == 0 && to_rts(end->qp, fixed ? 100 + 7919 * i : 0, 14) == 0);
	}
	end_pair(&pair);
}

static void qkey_constant(bool fixed) {
	const struct shape shape = ud();
	struct pair pair = make_unconnected(&shape);
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = fixed ? 0x31415926 : 0x11111111};
	MUST(ibv_modify_qp(pair.a.qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	end_pair(&pair);
}

static void rkey_whole_memory(bool fixed) {
	struct pair pair = make_pair(&usual);
	const size_t size = (size_t)2 << 30;
	char *large = malloc(size);
	MUST(large);
	struct ibv_mr *mr = ibv_reg_mr(
		pair.pd, large, fixed ? 1 << 20 : size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	MUST(mr && ibv_dereg_mr(mr) == 0);
	free(large);
	end_pair(&pair);
}

#define PROGRAM(function) {#function, function}
static const struct {
	const char *rule;
	void (*run)(bool fixed);
} programs[] = {
	PROGRAM(mr_dereg_in_flight), PROGRAM(mr_dereg_advertised), PROGRAM(mem_freed_while_registered),
	PROGRAM(mw_mr_order), PROGRAM(pd_destroy_order), PROGRAM(ah_destroy_in_flight),
	PROGRAM(ack_missing), PROGRAM(ack_wrong_cq), PROGRAM(qp_destroy_with_work), PROGRAM(srq_qp_no_last_wqe),
	PROGRAM(event_after_destroy_thread), PROGRAM(use_after_destroy), PROGRAM(fork_after_reg),
	PROGRAM(leak_at_exit),
	PROGRAM(send_buffer_modified), PROGRAM(send_buffer_freed), PROGRAM(stack_buffer_in_flight), PROGRAM(recv_overlap),
	PROGRAM(sge_overlap_one_wr), PROGRAM(ud_grh_missing), PROGRAM(remote_write_on_posted), PROGRAM(lkey_for_rkey), PROGRAM(recv_read_early), PROGRAM(read_sink_touched), PROGRAM(sq_unsignaled_full), PROGRAM(post_error_ignored),
	PROGRAM(cq_too_small), PROGRAM(cq_overrun), PROGRAM(rq_starved_rnr), PROGRAM(notify_lost_wakeup), PROGRAM(notify_not_armed), PROGRAM(signaled_flag_missing),
	PROGRAM(recv_on_srq_qp), PROGRAM(post_in_wrong_state), PROGRAM(post_in_err), PROGRAM(inline_too_long),
	PROGRAM(inline_bad_opcode), PROGRAM(wr_start_nesting), PROGRAM(thread_unsafe_td),
	PROGRAM(rd_atomic_mismatch), PROGRAM(read_then_write_nofence),
	PROGRAM(fence_expects_write), PROGRAM(atomic_unaligned), PROGRAM(atomic_vs_cpu), PROGRAM(atomic_vs_write), PROGRAM(access_write_without_local), PROGRAM(no_grh), PROGRAM(mtu_not_negotiated), PROGRAM(comp_vector), PROGRAM(cap_over_profile),
	PROGRAM(gid_index_0),
	PROGRAM(reset_to_reset), PROGRAM(timeout_zero), PROGRAM(max_msg_implicit), PROGRAM(psn_constant),
	PROGRAM(qkey_constant), PROGRAM(rkey_whole_memory),
};

int main(int argc, char **argv) {
	if (argc == 3)
		for (size_t i = 0; i < sizeof programs / sizeof *programs; ++i)
			if (strcmp(programs[i].rule, argv[1]) == 0) {
				if (strcmp(argv[2], "broken-3") == 0) repetitions = 3;
				programs[i].run(strcmp(argv[2], "fixed") == 0);
				return 0;
			}
	for (size_t i = 0; argc == 2 && i < sizeof programs / sizeof *programs; ++i) puts(programs[i].rule);
	return argc == 2 ? 0 : 2;
}

// SPDX-License-Identifier: Apache-2.0
// The programs of the rules about buffers.
#include "programs.h"

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

// Not by memset(3), which the compiler may make a store that the thread sanitizer does not see.
static void store(volatile char *at, size_t count) {
	for (size_t i = 0; i < count; ++i) at[i] = 'x';
}

static void recv_touched(bool fixed) {
	struct pair pair = make_pair(&usual);
	MUST(receive_at(&pair, pair.b.qp, 1, 0, 4096) == 0);
	if (!fixed) store(pair.memory, 64);
	MUST(post(pair.a.qp, request(&pair, IBV_WR_SEND, IBV_SEND_SIGNALED, 8192, 64, 0)) == 0);
	await(pair.b.cq);
	if (fixed) store(pair.memory, 64);
	await(pair.a.cq);
	end_pair(&pair);
}

// Both ends write at once, to the same memory or to memory of their own: more than the link holds,
// so that they take turns.
static void remote_races(bool fixed) {
	enum { bytes = 256 << 10, at_once = 12, rounds = 20 };
	struct pair pair = make_pair(&usual);
	for (int i = 0; i < rounds; ++i) {
		for (int j = 0; j < at_once; ++j) {
			MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 2 * bytes, bytes, 0)) == 0);
			MUST(post(pair.b.qp, request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 2 * bytes, bytes,
									 fixed ? bytes : 0)) == 0);
		}
		for (int j = 0; j < at_once; ++j) MUST(await(pair.a.cq) == 0 && await(pair.b.cq) == 0);
	}
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

// A sanitizer finds the mistakes of the next two.
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
	store(pair.memory, 16);
	if (!fixed) await(pair.a.cq);
	end_pair(&pair);
}

const struct program buffers[] = {
	PROGRAM(send_buffer_modified), PROGRAM(send_buffer_freed), PROGRAM(stack_buffer_in_flight),
	PROGRAM(recv_overlap), PROGRAM(sge_overlap_one_wr), PROGRAM(ud_grh_missing),
	PROGRAM(remote_write_on_posted), PROGRAM(recv_touched), PROGRAM(remote_races),
	PROGRAM(lkey_for_rkey), PROGRAM(recv_read_early), PROGRAM(read_sink_touched),
	{0},
};

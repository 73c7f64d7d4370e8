// SPDX-License-Identifier: Apache-2.0
// The programs of the rules about ordering.
#include "programs.h"

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

// Needs two devices.
static void atomic_two_devices(bool fixed) {
	struct pair first = make_pair(&usual);
	device_number = 1;
	struct pair second = make_unconnected(&usual);
	second.psn += 50000;
	connect_pair(&second);
	struct ibv_mr *mr = ibv_reg_mr(
		second.pd, first.memory, memory_bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	MUST(mr);
	for (int i = 0; i < 4; ++i) {
		add_remotely(&first);
		struct ibv_send_wr *wr = request(&second, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_SEND_SIGNALED, 0, 8, 0);
		wr->wr.atomic.remote_addr = (uintptr_t)first.memory + (fixed ? 8200 : 8192);
		wr->wr.atomic.rkey = mr->rkey;
		MUST(post(second.a.qp, wr) == 0 && await(second.a.cq) == IBV_WC_SUCCESS);
	}
	MUST(ibv_dereg_mr(mr) == 0);
	end_pair(&second);
	end_pair(&first);
}

const struct program ordering[] = {
	PROGRAM(read_then_write_nofence), PROGRAM(fence_expects_write), PROGRAM(atomic_unaligned),
	PROGRAM(atomic_vs_cpu), PROGRAM(atomic_vs_write), PROGRAM(atomic_two_devices),
	{0},
};

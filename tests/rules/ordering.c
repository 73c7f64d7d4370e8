// SPDX-License-Identifier: Apache-2.0
// The programs of the rules about ordering.
#include <pthread.h>

#include "programs.h"

// Data by one queue pair and the flag by another one. Both lead into the memory of this process.
static void write_flag_other_qp(bool fixed) {
	struct pair pair = make_pair(&usual);
	MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 2048, 8192)) == 0);
	if (fixed) MUST(await(pair.a.cq) == IBV_WC_SUCCESS);
	MUST(post(pair.b.qp, request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 4096, 8, 16384)) == 0);
	MUST(await(pair.b.cq) == IBV_WC_SUCCESS);
	if (!fixed) MUST(await(pair.a.cq) == IBV_WC_SUCCESS);
	end_pair(&pair);
}

static void read_then_write_nofence(bool fixed) {
	struct pair pair = make_pair(&usual);
	MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_READ, 0, 0, 64, 8192)) == 0);
	const unsigned flags = IBV_SEND_SIGNALED | (fixed ? IBV_SEND_FENCE : 0);
	MUST(post(pair.a.qp, request(&pair, IBV_WR_RDMA_WRITE, flags, 0, 64, 12288)) == 0);
	await(pair.a.cq);
	end_pair(&pair);
}

enum { records = 16, record_bytes = 2048 };

struct writer {
	struct pair *pair;
	bool says_so;  // by a message after each record
	int read;
};

// Writes records, each when the one before was read. The last byte of a record is its number.
static void *write_records(void *argument) {
	struct writer *writer = argument;
	struct pair *pair = writer->pair;
	for (int number = 1; number <= records; ++number) {
		memset(pair->memory + 8192, number, record_bytes);
		MUST(post(pair->a.qp, request(pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8192, record_bytes, 0)) == 0);
		MUST(await(pair->a.cq) == IBV_WC_SUCCESS);
		if (writer->says_so) {
			MUST(post(pair->a.qp, request(pair, IBV_WR_SEND, IBV_SEND_SIGNALED, 8192, 1, 0)) == 0);
			MUST(await(pair->a.cq) == IBV_WC_SUCCESS);
		}
		while (__atomic_load_n(&writer->read, __ATOMIC_ACQUIRE) < number) sched_yield();
	}
	return NULL;
}

static void poll_memory_write(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct writer writer = {&pair, fixed, 0};
	if (fixed) MUST(receive_at(&pair, pair.b.qp, 0, 16384, 64) == 0);
	pthread_t thread;
	MUST(pthread_create(&thread, NULL, write_records, &writer) == 0);
	for (int number = 1; number <= records; ++number) {
		if (fixed) {
			MUST(await(pair.b.cq) == IBV_WC_SUCCESS);
			if (number < records) MUST(receive_at(&pair, pair.b.qp, 0, 16384, 64) == 0);
		} else {
			while (__atomic_load_n(pair.memory + record_bytes - 1, __ATOMIC_ACQUIRE) != number);
		}
		__atomic_store_n(&writer.read, number, __ATOMIC_RELEASE);
	}
	MUST(pthread_join(thread, NULL) == 0);
	end_pair(&pair);
}

// The flag says that other data is there; the twin's counter says nothing of other data.
static void *write_flags(void *argument) {
	struct writer *writer = argument;
	struct pair *pair = writer->pair;
	for (uint64_t number = 1; number <= records; ++number) {
		memset(pair->memory + 8192, (int)number, record_bytes);
		if (!writer->says_so)
			MUST(post(pair->a.qp, request(pair, IBV_WR_RDMA_WRITE, 0, 8192, record_bytes, 0)) == 0);
		memcpy(pair->memory + 12288, &number, sizeof number);
		MUST(post(pair->a.qp, request(pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 12288, sizeof number, 4096)) == 0);
		MUST(await(pair->a.cq) == IBV_WC_SUCCESS);
		while ((uint64_t)__atomic_load_n(&writer->read, __ATOMIC_ACQUIRE) < number) sched_yield();
	}
	return NULL;
}

static void flag_polled(bool fixed) {
	struct pair pair = make_pair(&usual);
	struct writer writer = {&pair, fixed, 0};
	pthread_t thread;
	MUST(pthread_create(&thread, NULL, write_flags, &writer) == 0);
	const uint64_t *flag = (const uint64_t *)(pair.memory + 4096);
	for (uint64_t number = 1; number <= records; ++number) {
		while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != number);
		__atomic_store_n(&writer.read, (int)number, __ATOMIC_RELEASE);
	}
	MUST(pthread_join(thread, NULL) == 0);
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
	PROGRAM(poll_memory_write), PROGRAM(flag_polled), PROGRAM(write_flag_other_qp),
	PROGRAM(read_then_write_nofence),
	PROGRAM(fence_expects_write), PROGRAM(atomic_unaligned),
	PROGRAM(atomic_vs_cpu), PROGRAM(atomic_vs_write), PROGRAM(atomic_two_devices),
	{0},
};

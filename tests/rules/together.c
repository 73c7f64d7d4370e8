// SPDX-License-Identifier: Apache-2.0
// Threads that post to one queue pair and poll one completion queue, all at the same time. There is
// no mistake: each thread changes its own memory only after its completion was polled.
#include <pthread.h>
#include <stdatomic.h>

#include "pair.h"

enum { posters = 4, pollers = 2, rounds = 5000, bytes = 256 };

static struct pair pair;
static _Atomic uint64_t completed[posters];  // by thread: its number of the last completion
static atomic_int polled;

static void* post_writes(void* argument) {
	const uint64_t thread = (uintptr_t)argument;
	for (uint64_t i = 1; i <= rounds; ++i) {
		memset(pair.memory + thread * 4096, (int)i, bytes);
		struct ibv_sge sge = {(uintptr_t)pair.memory + thread * 4096, bytes, pair.mr->lkey};
		struct ibv_send_wr wr = {.wr_id = thread << 32 | i,
							   .sg_list = &sge,
							   .num_sge = 1,
							   .opcode = IBV_WR_RDMA_WRITE,
							   .send_flags = IBV_SEND_SIGNALED,
							   .wr.rdma = {(uintptr_t)pair.memory + 65536 + thread * 4096, pair.mr->rkey}},
						   *bad;
		MUST(ibv_post_send(pair.a.qp, &wr, &bad) == 0);
		while (atomic_load(&completed[thread]) != i) sched_yield();
	}
	return NULL;
}

static void* poll(void* unused) {
	while (atomic_load(&polled) < posters * rounds) {
		struct ibv_wc wc;
		if (ibv_poll_cq(pair.a.cq, 1, &wc) == 0) {
			sched_yield();
			continue;
		}
		MUST(wc.status == IBV_WC_SUCCESS);
		atomic_fetch_add(&polled, 1);
		atomic_store(&completed[wc.wr_id >> 32], wc.wr_id & 0xffffffff);
	}
	return unused;
}

int main(void) {
	pair = make_pair(&usual);
	pthread_t threads[posters + pollers];
	for (uintptr_t i = 0; i < posters + pollers; ++i)
		MUST(pthread_create(&threads[i], NULL, i < posters ? post_writes : poll, (void*)i) == 0);
	for (int i = 0; i < posters + pollers; ++i) MUST(pthread_join(threads[i], NULL) == 0);
	end_pair(&pair);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
// One thread posts, and another one polls: a completion may be polled before the post returns.
// There is no mistake, for the first thread waits for the second one before it goes on.
#include <pthread.h>
#include <stdatomic.h>

#include "pair.h"

enum { rounds = 10000 };

static struct pair pair;
static atomic_int sent, received;

static void *poll_sends(void *unused) {
	while (atomic_load(&sent) != rounds) {
		MUST(await(pair.a.cq) == IBV_WC_SUCCESS);
		atomic_fetch_add(&sent, 1);
	}
	return unused;
}

static void *poll_receives(void *unused) {
	while (atomic_load(&received) != rounds) {
		MUST(await(pair.b.cq) == IBV_WC_SUCCESS);
		atomic_fetch_add(&received, 1);
	}
	return unused;
}

int main(void) {
	pair = make_pair(&usual);
	pthread_t threads[2];
	MUST(pthread_create(&threads[0], NULL, poll_sends, NULL) == 0);
	MUST(pthread_create(&threads[1], NULL, poll_receives, NULL) == 0);
	for (int i = 0; i < rounds; ++i) {
		memset(pair.memory + 8192, i, 64);
		MUST(receive_at(&pair, pair.b.qp, i, 0, 64) == 0);
		MUST(post(pair.a.qp, request(&pair, IBV_WR_SEND, IBV_SEND_SIGNALED, 8192, 64, 0)) == 0);
		while (atomic_load(&sent) <= i || atomic_load(&received) <= i) sched_yield();
	}
	for (int i = 0; i < 2; ++i) MUST(pthread_join(threads[i], NULL) == 0);
	end_pair(&pair);
	return 0;
}

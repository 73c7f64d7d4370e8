// SPDX-License-Identifier: Apache-2.0
/* lanes SERVER PID TRANSPORT: a handle with lanes, used by fewer, as many and more threads. PID is
 * the server's process, which is stopped at the end. Prints "all good", or the expectation that
 * failed and ends with status 1. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "stopping.h"

enum { LANES = 3, THREADS = 7, MANY = 16, ROUNDS = 200 };

struct worker {
	void *store;
	int number;
	char *kept;
};

/* Uses keys of its own by each kind of call, and leaves a value that another thread releases. */
static void *work(void *argument)
{
	struct worker *worker = argument;
	void *store = worker->store;
	char keys[MANY][24], *value;
	struct kv_op ops[MANY];
	for (int i = 0; i < MANY; ++i) snprintf(keys[i], sizeof keys[i], "%d of %d", i, worker->number);
	for (int round = 0; round < ROUNDS; ++round) {
		char *key = keys[round % MANY];
		EXPECT(kv_set_async(store, key, key) == KV_OK);
		EXPECT(kv_get(store, key, &value) == KV_OK && strcmp(value, key) == 0);
		kv_release(value);
		EXPECT(kv_set(store, "", key) == KV_EMPTY_KEY && strstr(kv_last_error(store), "empty") != NULL);
		if (round % 8 != 0) continue;
		for (int i = 0; i < MANY; ++i)
			ops[i] = (struct kv_op){.size = sizeof ops[i], .kind = KV_OP_GET, .key = keys[i], .key_length = strlen(keys[i])};
		for (int i = 0; i < MANY; ++i) EXPECT(kv_set_async(store, keys[i], keys[i]) == KV_OK);
		EXPECT(kv_flush(store) == KV_OK);
		EXPECT(kv_mget(store, ops, MANY) == KV_OK);
		for (int i = 0; i < MANY; ++i) {
			EXPECT(strcmp(ops[i].value, keys[i]) == 0);
			kv_release(ops[i].value);
		}
	}
	EXPECT(kv_get(store, keys[0], &worker->kept) == KV_OK);
	return NULL;
}

static atomic_int begun, ended;

static void *wait_for_the_stopped_server(void *store)
{
	struct kv_op op = {.size = sizeof op, .kind = KV_OP_GET, .key = "key", .key_length = 3}, *done;
	EXPECT(kv_submit(store, &op, 1) == 1);
	begun = 1;
	EXPECT(kv_wait(store, &done, 1, 1, -1) == 1 && op.result == KV_MISSING);
	ended = 1;
	return NULL;
}

static void *ask(void *store)
{
	(void)kv_last_error(store);
	char *value = kv_alloc(store, 100);
	EXPECT(value != NULL);
	kv_release(value);
	return NULL;
}

int main(int argc, char **argv)
{
	void *store = NULL;
	if (argc != 4) return 2;
	const pid_t server = (pid_t)atoi(argv[2]);
	struct kv_counters counters = {.size = sizeof counters};
	struct kv_options options = {.size = sizeof options, .transport = argv[3], .lanes = 65};
	EXPECT(kv_open_with(argv[1], &options, &store) == KV_INVALID && strstr(kv_last_error(NULL), "lanes") != NULL);
	EXPECT(store == NULL);
	options.lanes = LANES;
	EXPECT(kv_open_with(argv[1], &options, &store) == KV_OK);
	EXPECT(kv_read_counters(store, &counters) == KV_OK && counters.connects == LANES);

	pthread_t threads[THREADS];
	struct worker workers[THREADS];
	for (int count = 1; count <= THREADS; count += 2) {
		for (int i = 0; i < count; ++i) {
			workers[i] = (struct worker){.store = store, .number = i};
			EXPECT(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
		}
		for (int i = 0; i < count; ++i) EXPECT(pthread_join(threads[i], NULL) == 0);
		for (int i = 0; i < count; ++i) {
			/* A value of another lane is set from where it is, and released by this thread. */
			EXPECT(kv_set(store, "again", workers[i].kept) == KV_OK);
			kv_release(workers[i].kept);
		}
	}
	EXPECT(kv_read_counters(store, &counters) == KV_OK && counters.operations > THREADS * ROUNDS);

	/* While one thread waits in a call, each other one has the second lane: those that have ended
	 * have left it. */
	kv_close(store);
	options.timeout_ms = -1;
	options.lanes = 2;
	EXPECT(kv_open_with(argv[1], &options, &store) == KV_OK);
	stop_process(server);
	pthread_t waiting;
	EXPECT(pthread_create(&waiting, NULL, wait_for_the_stopped_server, store) == 0);
	while (!begun) sched_yield();
	for (int i = 0; i < 10; ++i) {
		EXPECT(pthread_create(&threads[0], NULL, ask, store) == 0 && pthread_join(threads[0], NULL) == 0);
	}
	EXPECT(!ended);
	kill(server, SIGCONT);
	EXPECT(pthread_join(waiting, NULL) == 0);
	EXPECT(kv_set(store, "key", "value") == KV_OK);
	puts("all good");
	return kv_close(store) != KV_OK;
}

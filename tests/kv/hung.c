// SPDX-License-Identifier: Apache-2.0
/* hung SERVERS HUNG PID TRANSPORT: works with the keys of a list of servers while the process PID,
 * the server HUNG of the list, is stopped. Prints the slowest operation on the keys of the others,
 * or the expectation that failed and ends with status 1.
 *
 * The process is stopped already at the beginning. A key is the hung server's if a handle for that
 * server alone finds it. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <verbena/kv.h>

#include "expect.h"

enum { keys = 60, timeout_ms = 1500 };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	void *store = NULL, *one = NULL;
	char key[16], *value;
	int is_hung[keys];
	if (argc != 5) return 2;
	const pid_t server = (pid_t)atoi(argv[3]);
	struct kv_options options = {.size = sizeof options, .transport = argv[4], .timeout_ms = timeout_ms};

	/* The list opens while one of its servers hangs. */
	double begin = now();
	EXPECT(kv_open_with(argv[1], &options, &store) == KV_OK);
	EXPECT(now() - begin < 5);
	kill(server, SIGCONT);
	for (int i = 0; i < keys; ++i) {
		snprintf(key, sizeof key, "key%d", i);
		EXPECT(kv_set(store, key, "value") == KV_OK);
	}
	EXPECT(kv_open_with(argv[2], &options, &one) == KV_OK);
	int hung = -1, others = 0;
	for (int i = 0; i < keys; ++i) {
		snprintf(key, sizeof key, "key%d", i);
		is_hung[i] = kv_delete(one, key) == KV_OK;
		if (is_hung[i]) hung = i;
		else ++others;
	}
	EXPECT(kv_close(one) == KV_OK);
	EXPECT(hung >= 0 && others > 0);

	kill(server, SIGSTOP);
	double slowest = 0;
	snprintf(key, sizeof key, "key%d", hung);
	EXPECT(kv_set_async(store, key, "late") == KV_OK);
	for (int i = 0; i < keys * 20; ++i) {
		if (is_hung[i % keys]) continue;
		snprintf(key, sizeof key, "key%d", i % keys);
		begin = now();
		EXPECT(kv_set(store, key, "again") == KV_OK);
		EXPECT(kv_get(store, key, &value) == KV_OK && value[0] == 'a');
		kv_release(value);
		if (now() - begin > slowest) slowest = now() - begin;
	}
	EXPECT(slowest < timeout_ms / 1000.0);

	/* A key of the hung server fails at its deadline, and changes once the server goes on. */
	snprintf(key, sizeof key, "key%d", hung);
	begin = now();
	const int result = kv_set(store, key, "lost");
	EXPECT(result == KV_TIMEOUT || result == KV_UNAVAILABLE);
	EXPECT(now() - begin > timeout_ms / 1000.0 * 0.9 && now() - begin < timeout_ms / 1000.0 * 2 + 5);
	kill(server, SIGCONT);
	(void)kv_flush(store);
	EXPECT(kv_set(store, key, "back") == KV_OK);
	EXPECT(kv_get(store, key, &value) == KV_OK && value[0] == 'b');
	kv_release(value);
	printf("the slowest operation on the other servers took %.3f ms\n", slowest * 1e3);
	return kv_close(store) != KV_OK;
}

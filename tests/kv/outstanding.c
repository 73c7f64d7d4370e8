// SPDX-License-Identifier: Apache-2.0
/* outstanding SERVER PID TRANSPORT stopped|killed|lost: 64 ops are under way when the server, the
 * process PID, is stopped or killed; with "lost", and the option no_retry. Prints "all good", or
 * the expectation that failed and ends with status 1. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "expect.h"
#include "stopping.h"

enum { MANY = 64, TIMEOUT_MS = 1500 };

static struct kv_op ops[MANY];
static char keys[MANY][16];

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void submit(void *store)
{
	for (int i = 0; i < MANY; ++i) {
		snprintf(keys[i], sizeof keys[i], "key %d", i);
		ops[i] = (struct kv_op){.size = sizeof ops[i],
			.kind = i % 2 == 0 ? KV_OP_GET : KV_OP_SET,
			.key = keys[i],
			.key_length = strlen(keys[i]),
			.value = keys[i],
			.value_length = i % 3 == 0 ? 1 : sizeof keys[i]};
	}
	EXPECT(kv_submit(store, ops, MANY) == MANY);
}

int main(int argc, char **argv)
{
	void *store = NULL;
	struct kv_op *done[MANY];
	if (argc != 5) return 2;
	const pid_t server = (pid_t)atoi(argv[2]);
	const int is_stopped = strcmp(argv[4], "stopped") == 0, is_lost = strcmp(argv[4], "lost") == 0;
	struct kv_options options = {
		.size = sizeof options, .transport = argv[3], .timeout_ms = is_lost ? -1 : TIMEOUT_MS, .no_retry = is_lost};
	EXPECT(kv_open_with(argv[1], &options, &store) == KV_OK);
	submit(store);
	EXPECT(kv_wait(store, done, MANY, MANY, -1) == MANY);
	stop_process(server);
	double begin = now();
	submit(store);
	EXPECT(kv_wait(store, done, MANY, MANY, 100) == 0 && now() - begin > 0.09);
	if (!is_stopped) kill(server, SIGKILL);
	/* The descriptor says when the deadlines pass. */
	struct pollfd fd = {.fd = kv_fd(store), .events = POLLIN};
	EXPECT(fd.fd >= 0);
	for (int left = MANY; left > 0;) {
		EXPECT(poll(&fd, 1, 20000) == 1);
		left -= kv_wait(store, done, MANY, 0, 0);
	}
	if (!is_lost) EXPECT(now() - begin > TIMEOUT_MS / 1000.0 * 0.9);
	for (int i = 0; i < MANY; ++i) {
		if (is_lost) EXPECT(ops[i].result == KV_LOST);
		else EXPECT(ops[i].result == KV_TIMEOUT || ops[i].result == KV_UNAVAILABLE);
		EXPECT(ops[i].kind == KV_OP_SET || (ops[i].value == NULL && ops[i].value_length == 0));
	}
	EXPECT(strlen(kv_last_error(store)) > 0);
	if (is_stopped) {
		kill(server, SIGCONT);
		/* On a machine that stalls some may be late once more. */
		int good = 0;
		for (int attempt = 0; good < MANY && attempt < 5; ++attempt) {
			submit(store);
			EXPECT(kv_wait(store, done, MANY, MANY, -1) == MANY);
			good = 0;
			for (int i = 0; i < MANY; ++i) good += ops[i].result == (i % 2 == 0 ? KV_MISSING : KV_OK);
		}
		EXPECT(good == MANY);
	}
	puts("all good");
	return kv_close(store) != KV_OK;
}

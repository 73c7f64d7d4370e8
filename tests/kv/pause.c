// SPDX-License-Identifier: Apache-2.0
/* pause SERVER TRANSPORT: pauses for longer than an operation may take, and begins one without
 * waiting for it. Its deadline counts from then. Prints "all good", or the expectation that failed
 * and ends with status 1. */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "expect.h"

/* On a machine that stalls an operation may be late for once; with the mistake, each is. */
enum { TIMEOUT_MS = 600, ATTEMPTS = 5 };

int main(int argc, char **argv)
{
	void *store = NULL;
	int late = 1;
	struct kv_op op = {.size = sizeof op, .kind = KV_OP_GET, .key = "key", .key_length = 3}, *done;
	const struct timespec pause = {.tv_sec = 1};
	if (argc != 3) return 2;
	struct kv_options options = {.size = sizeof options, .transport = argv[2], .timeout_ms = TIMEOUT_MS};
	EXPECT(kv_open_with(argv[1], &options, &store) == KV_OK);
	for (int i = 0; late && i < ATTEMPTS; ++i) {
		nanosleep(&pause, NULL);
		EXPECT(kv_set_async(store, "key", "value") == KV_OK);
		late = kv_flush(store) != KV_OK;
	}
	EXPECT(!late);
	late = 1;
	for (int i = 0; late && i < ATTEMPTS; ++i) {
		nanosleep(&pause, NULL);
		EXPECT(kv_submit(store, &op, 1) == 1 && kv_wait(store, &done, 1, 1, -1) == 1);
		late = op.result != KV_OK;
		kv_release(op.value);
	}
	EXPECT(!late);
	puts("all good");
	return kv_close(store) != KV_OK;
}

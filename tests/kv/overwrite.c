// SPDX-License-Identifier: Apache-2.0
/* overwrite SERVER COUNT: sets 64 keys COUNT times in all, many SETs at once, with values of 64 B
 * to 8 KiB, and checks each key at the end. Prints the number of SETs done and of memory
 * registrations after each tenth. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <verbena/kv.h>

enum { KEYS = 64, LEAST = 64, MOST = 8192 };

static char value[MOST];

/* The sizes cover the whole range, for each key. */
static size_t value_of(unsigned number)
{
	const size_t size = LEAST + number * 2654435761u % (MOST - LEAST + 1);
	snprintf(value, sizeof value, "%016u", number);
	return size;
}

static int fail(void *store)
{
	fprintf(stderr, "overwrite: %s\n", kv_last_error(store));
	return 1;
}

int main(int argc, char **argv)
{
	void *store;
	struct kv_counters counters = {.size = sizeof counters};
	if (argc != 3) return 2;
	const unsigned count = (unsigned)atoi(argv[2]);
	memset(value, 'v', sizeof value);
	if (kv_open(argv[1], &store) != KV_OK) return fail(NULL);
	for (unsigned i = 0; i < count; ++i) {
		char key[16];
		snprintf(key, sizeof key, "key%u", i % KEYS);
		if (kv_setn_async(store, key, strlen(key), value, value_of(i)) != KV_OK) return fail(store);
		if ((i + 1) % (count / 10) != 0) continue;
		if (kv_flush(store) != KV_OK || kv_read_counters(store, &counters) != KV_OK) return fail(store);
		printf("%u %llu\n", i + 1, counters.registrations);
		fflush(stdout);
	}
	for (unsigned i = count - KEYS; i < count; ++i) {
		char key[16], *got;
		size_t length;
		snprintf(key, sizeof key, "key%u", i % KEYS);
		if (kv_getn(store, key, strlen(key), &got, &length) != KV_OK) return fail(store);
		if (length != value_of(i) || memcmp(got, value, length) != 0) {
			fprintf(stderr, "overwrite: %s is not what was set last\n", key);
			return 3;
		}
		kv_release(got);
	}
	return kv_close(store) == KV_OK ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
/* watch SERVER PREFIX: prints the keys that begin with the prefix, and what becomes of them, until
 * it is interrupted. (cc watch.c -o watch $(pkg-config --cflags --libs verbena-kv)) */
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <verbena/kv.h>

static void print(void *store, const char *key, size_t length)
{
	char *value;
	const int result = kv_getn(store, key, length, &value, &length);
	printf("%s %s\n", key, result == KV_OK ? value : kv_strerror(result));
	kv_release(value);
}

int main(int argc, char **argv)
{
	const char *prefix = argc > 2 ? argv[2] : "";
	const struct kv_event *events;
	struct kv_watcher *watcher;
	struct kv_key *keys;
	size_t count, found;
	void *store;
	if (kv_open(argc > 1 ? argv[1] : "127.0.0.1", &store) != KV_OK) errx(1, "%s", kv_last_error(NULL));
	kv_watch(store, prefix, strlen(prefix), KV_WATCH_PREFIX, &watcher);
	for (; kv_next_events(watcher, &events, &count, -1) == KV_OK; fflush(stdout))
		for (size_t i = 0; i < count; ++i) {
			struct kv_cursor at = {.done = events[i].kind != KV_EVENT_LOOK_AGAIN};
			if (at.done) print(store, events[i].key, events[i].key_length);
			while (!at.done && kv_scan(store, &at, prefix, strlen(prefix), 0, &keys, &found) == KV_OK) {
				for (size_t k = 0; k < found; ++k) print(store, keys[k].key, keys[k].key_length);
				kv_release((char *)keys);
			}
		}
	errx(1, "%s", kv_last_error(store));
}

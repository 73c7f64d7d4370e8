// SPDX-License-Identifier: Apache-2.0
/* store SERVER: many SETs at once, any bytes, and large values that leave without a copy.
 *
 *     cc store.c -o store $(pkg-config --cflags --libs verbena-kv) && ./store 127.0.0.1
 */
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <verbena/kv.h>

static void need(int result, void *store)
{
	if (result != KV_OK) errx(1, "%s", kv_last_error(store));
}

int main(int argc, char **argv)
{
	void *store;
	char key[16], *value;
	size_t length, size = 1 << 20;
	struct kv_counters counters = {.size = sizeof counters};

	need(kv_open(argc > 1 ? argv[1] : "127.0.0.1", &store), NULL);
	for (int i = 0; i < 1000; ++i) {
		snprintf(key, sizeof key, "key %d", i);
		need(kv_set_async(store, key, "value"), store); /* both may be reused now */
	}
	need(kv_flush(store), store);
	char *large = kv_alloc(store, size); /* registered memory */
	memset(large, 'x', size);
	need(kv_setn(store, "large", 5, large, size), store);
	kv_release(large);
	need(kv_getn(store, "large", 5, &value, &length), store);
	kv_release(value);
	printf("large has %zu bytes; ", length);
	printf("nothing: %s\n", kv_strerror(kv_getn(store, "nothing", 7, &value, &length)));
	need(kv_read_counters(store, &counters), store);
	printf("%llu operations, %llu leased, %llu read, %llu copied\n", counters.operations, counters.leased, counters.reads, counters.copied);
	return kv_close(store) != KV_OK;
}

/* The whole C interface of the key-value store in one program:
 *
 *     kv_server --listen 127.0.0.1 &
 *     cc store.c -o store $(pkg-config --cflags --libs verbena-kv)
 *     ./store 127.0.0.1
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <verbena/kv.h>

static void need(int result, void *store, const char *what)
{
	if (result == KV_OK) return;
	fprintf(stderr, "store: %s: %s\n", what, kv_last_error(store));
	exit(1);
}

int main(int argc, char **argv)
{
	char *server = argc > 1 ? argv[1] : "127.0.0.1", *value;
	void *store;
	size_t length;

	need(kv_open(server, &store), NULL, server);
	need(kv_set(store, "greeting", "hello"), store, "SET greeting");
	need(kv_get(store, "greeting", &value), store, "GET greeting");
	printf("greeting = %s\n", value);
	kv_release(value);

	/* A missing key has "", and a code of its own where lengths are told. */
	need(kv_get(store, "nothing", &value), store, "GET nothing");
	printf("nothing = \"%s\"", value);
	kv_release(value);
	printf(", %s\n", kv_strerror(kv_getn(store, "nothing", 7, &value, &length)));

	/* Many at once, then one wait for all. */
	for (int i = 0; i < 1000; ++i) {
		char key[16], text[16];
		snprintf(key, sizeof key, "key %d", i);
		snprintf(text, sizeof text, "value %d", i);
		need(kv_set_async(store, key, text), store, key);
	}
	need(kv_flush(store), store, "flush");

	/* A megabyte in registered memory leaves without a copy. */
	const size_t size = 1 << 20;
	char *large = kv_alloc(store, size);
	memset(large, 'x', size);
	need(kv_setn(store, "large", 5, large, size), store, "SET large");
	kv_release(large);
	need(kv_getn(store, "large", 5, &value, &length), store, "GET large");
	printf("large has %zu bytes\n", length);
	kv_release(value);

	struct kv_counters counters;
	need(kv_read_counters(store, &counters), store, "counters");
	printf("%llu operations, %llu lent, %llu read, %llu copied\n", counters.operations, counters.lent, counters.reads, counters.copied);
	need(kv_close(store), NULL, "close");
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
/* servers HOST:PORT,HOST:PORT...: one handle for several servers, each with its share of the keys.
 * "etcd://HOST:2379/PREFIX" names the members of an etcd prefix.
 *
 *     cc servers.c -o servers $(pkg-config --cflags --libs verbena-kv) && ./servers a,b:7473,c
 */
#include <stdio.h>
#include <verbena/kv.h>

int main(int argc, char **argv)
{
	void *store;
	char key[16], *value;
	int good = 0, refused = 0;

	if (argc != 2 || kv_open(argv[1], &store) != KV_OK) {
		fprintf(stderr, "servers: %s\n", argc == 2 ? kv_last_error(NULL) : "usage: servers HOST:PORT,HOST:PORT...");
		return 1;
	}
	for (int i = 0; i < 300; ++i) {
		snprintf(key, sizeof key, "key %d", i);
		refused += kv_set(store, key, key) != KV_OK; /* its server is down */
	}
	for (int i = 0; i < 300; ++i) {
		snprintf(key, sizeof key, "key %d", i);
		if (kv_get(store, key, &value) != KV_OK) continue;
		good += value[0] != '\0';
		kv_release(value);
	}
	printf("%d of 300 keys are kept, %d were refused\n", good, refused);
	return kv_close(store) != KV_OK;
}

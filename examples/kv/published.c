// SPDX-License-Identifier: Apache-2.0
/* published SERVER: only the five published functions (and kv_last_error()).
 *
 *     cc published.c -o published $(pkg-config --cflags --libs verbena-kv) && ./published 127.0.0.1
 */
#include <stdio.h>
#include <verbena/kv.h>

int main(int argc, char **argv)
{
	char *server = argc > 1 ? argv[1] : "127.0.0.1", *value;
	void *store;

	if (kv_open(server, &store) != 0) {
		fprintf(stderr, "published: %s\n", kv_last_error(NULL));
		return 1;
	}
	int failed = kv_set(store, "greeting", "hello");
	for (int i = 0; i < 2 && !failed; ++i) {
		const char *key = i == 0 ? "greeting" : "nothing"; /* a missing key yields "" */
		failed = kv_get(store, key, &value);
		if (failed) break;
		printf("%s = \"%s\"\n", key, value);
		kv_release(value);
	}
	if (failed) fprintf(stderr, "published: %s\n", kv_last_error(store));
	return kv_close(store) != 0 || failed;
}

// SPDX-License-Identifier: Apache-2.0
/* kv SERVER: sets a key, and prints the value that it gets. */
#include <stdio.h>
#include <verbena/kv.h>

int main(int argc, char **argv)
{
	void *store;
	char *value;
	if (argc != 2) return 2;
	if (kv_open(argv[1], &store) != KV_OK || kv_set(store, "language", "C") != KV_OK ||
		kv_get(store, "language", &value) != KV_OK) {
		fprintf(stderr, "%s\n", kv_last_error(NULL));
		return 1;
	}
	printf("written in %s\n", value);
	kv_release(value);
	return kv_close(store) != KV_OK;
}

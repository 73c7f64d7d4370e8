// SPDX-License-Identifier: Apache-2.0
/* batch SERVER: 64 SETs and 64 GETs at once, with the result of each.
 *
 *     cc batch.c -o batch $(pkg-config --cflags --libs verbena-kv) && ./batch 127.0.0.1
 */
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <verbena/kv.h>

enum { MANY = 64 };

int main(int argc, char **argv)
{
	void *store;
	char keys[MANY][16];
	struct kv_op ops[MANY], *done[MANY];

	if (kv_open(argc > 1 ? argv[1] : "127.0.0.1", &store) != KV_OK) errx(1, "%s", kv_last_error(NULL));
	for (int i = 0; i < MANY; ++i) {
		snprintf(keys[i], sizeof keys[i], "key %d", i);
		ops[i] = (struct kv_op){.size = sizeof ops[i], .kind = KV_OP_SET, .key = keys[i], .key_length = strlen(keys[i])};
		ops[i].value = keys[i]; /* key and value must stay until the op is done */
		ops[i].value_length = ops[i].key_length;
	}
	for (int sent = 0, got = 0; got < MANY;) {
		sent += kv_submit(store, ops + sent, MANY - sent);
		const int n = kv_wait(store, done, MANY, 1, -1); /* waits for one */
		for (int i = 0; i < n; ++i)
			if (done[i]->result != KV_OK) warnx("%s: %s", (char *)done[i]->key, kv_strerror(done[i]->result));
		got += n;
	}
	for (int i = 0; i < MANY; ++i) ops[i].kind = KV_OP_GET;
	if (kv_mget(store, ops, MANY) != KV_OK) errx(1, "%s", kv_last_error(store));
	printf("%d values; the last is \"%s\"\n", MANY, ops[MANY - 1].value);
	for (int i = 0; i < MANY; ++i) kv_release(ops[i].value);
	return kv_close(store) != KV_OK;
}

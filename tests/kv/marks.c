// SPDX-License-Identifier: Apache-2.0
/* marks SERVERS KEYS TIMEOUT_MS: executes the lines of standard input, each on all keys at once:
 *
 *     set NUMBER    sets each key to the number; prints "set" and the result of each key
 *     get           prints "got" and the number of each key; "-": it is missing, "?": an error
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <verbena/kv.h>

enum { KEYS_MAX = 1000 };

int main(int argc, char **argv)
{
	static struct kv_op ops[KEYS_MAX];
	static char keys[KEYS_MAX][16];
	char line[64], mark[32];
	void *store;
	if (argc != 4) return 2;
	const int count = atoi(argv[2]);
	if (count < 1 || count > KEYS_MAX) return 2;
	struct kv_options options = {.size = sizeof options, .timeout_ms = atoi(argv[3])};
	if (kv_open_with(argv[1], &options, &store) != KV_OK) {
		fprintf(stderr, "marks: %s\n", kv_last_error(NULL));
		return 1;
	}
	while (fgets(line, sizeof line, stdin) != NULL) {
		const int sets = sscanf(line, "set %31s", mark) == 1;
		for (int i = 0; i < count; ++i) {
			snprintf(keys[i], sizeof keys[i], "k%d", i);
			ops[i] = (struct kv_op){.size = sizeof ops[i], .kind = sets ? KV_OP_SET : KV_OP_GET, .key = keys[i]};
			ops[i].key_length = strlen(keys[i]);
			if (!sets) continue;
			ops[i].value = mark;
			ops[i].value_length = strlen(mark);
		}
		kv_do(store, ops, count);
		fputs(sets ? "set" : "got", stdout);
		for (int i = 0; i < count; ++i) {
			if (sets) printf(" %d", ops[i].result);
			else if (ops[i].result == KV_OK) printf(" %s", ops[i].value_length > 0 ? ops[i].value : "?");
			else printf(" %s", ops[i].result == KV_MISSING ? "-" : "?");
			if (!sets) kv_release(ops[i].value);
		}
		putchar('\n');
		fflush(stdout);
	}
	return kv_close(store) == KV_OK ? 0 : 1;
}

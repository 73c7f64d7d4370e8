// SPDX-License-Identifier: Apache-2.0
/* cas SERVER ID SECONDS KEYS PROTOCOL FORM: changes a few keys by kv_cas() and kv_del_if() and
 * prints each operation with its times, for a check of linearizability. It ends with status 0 after
 * SECONDS, and with status 1 at the first operation that fails otherwise than by its condition or
 * by a disk.
 *
 *     R key version value begin end             a GET; "0 -": the key was missing
 *     S key expected version value begin end    a CAS, or a DEL (value "-"), that was made
 *     F key expected version begin end          one that was not, because the key had this version
 *
 * Each value is used once. PROTOCOL and FORM are those of history.c.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <verbena/kv.h>

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc != 7) return 2;
	static char mine[70000];
	const unsigned id = (unsigned)atoi(argv[2]), keys = (unsigned)atoi(argv[4]);
	const long long until = now() + (long long)(atof(argv[3]) * 1e9);
	const int one_sided = strcmp(argv[5], "onesided") == 0;
	struct kv_options options = {
		.size = sizeof options, .protocol = one_sided ? "auto" : argv[5], .rendezvous = argv[6], .one_sided = one_sided};
	if (strcmp(argv[5], "tcp") == 0) {
		options.protocol = "auto";
		options.transport = "tcp";
	}
	void *store;
	if (kv_open_with(argv[1], &options, &store) != KV_OK) {
		fprintf(stderr, "cas: %s\n", kv_last_error(NULL));
		return 1;
	}
	srand(id * 7919 + 1);
	for (unsigned number = 1; now() < until; ++number) {
		char key[16], *value;
		size_t length;
		unsigned long long version, expected;
		snprintf(key, sizeof key, "key%u", (unsigned)rand() % keys);
		long long begin = now();
		int result = kv_get_version(store, key, strlen(key), &value, &length, &version);
		if (result != KV_OK && result != KV_MISSING) goto failed;
		printf("R %s %llu %.16s %lld %lld\n", key, version, result == KV_OK ? value : "-", begin, now());
		if (result == KV_OK) kv_release(value);
		if (rand() % 3 == 0) continue;
		const int removes = version != 0 && rand() % 6 == 0;
		const size_t size = (const size_t[]){20, 3000, 9000, 70000}[number % 4];
		memset(mine, ' ', size);
		snprintf(mine, size, "%u.%u", id, number);
		mine[strlen(mine)] = ' ';
		expected = version;
		begin = now();
		result = removes ? kv_del_if(store, key, strlen(key), &version)
						 : kv_cas(store, key, strlen(key), mine, size, &version);
		const long long end = now();
		if (result == KV_OK && removes)
			printf("S %s %llu %llu - %lld %lld\n", key, expected, version, begin, end);
		else if (result == KV_OK)
			printf("S %s %llu %llu %.16s %lld %lld\n", key, expected, version, mine, begin, end);
		else if (result == KV_CHANGED)
			printf("F %s %llu %llu %lld %lld\n", key, expected, version, begin, end);
		else if (result != KV_DISK)
			goto failed;
		continue;
	failed:
		fprintf(stderr, "cas: %d: %s\n", result, kv_last_error(store));
		return 1;
	}
	return kv_close(store) == KV_OK ? 0 : 1;
}

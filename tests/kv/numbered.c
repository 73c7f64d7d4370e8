// SPDX-License-Identifier: Apache-2.0
/* numbered SERVER WRITER COUNT: SETs values with the numbers 1 to COUNT, in turn on eight keys of
 * this writer, and prints "A key number time" when one is acknowledged (CLOCK_MONOTONIC, ns).
 *
 * numbered SERVER WRITER get: prints "V key number" for each of the eight keys, number 0 if it is
 * missing. A value from whose number its other bytes do not follow ends the program with status 3.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <verbena/kv.h>

enum { keys = 8, largest = 70000 };

static size_t value_of(char *to, unsigned writer, unsigned number)
{
	static const size_t sizes[] = {24, 100, 3000, 5000, largest};
	const size_t size = sizes[(writer + number) % 5];
	snprintf(to, 24, "%07u %014u", writer, number);
	for (size_t i = 24; i < size; ++i) to[i] = (char)(writer * 31 + number * 7 + i);
	return size;
}

static int set_all(void *store, unsigned writer, unsigned count)
{
	static char value[largest + 1];
	char key[32];
	for (unsigned number = 1; number <= count; ++number) {
		snprintf(key, sizeof key, "w%u-%u", writer, number % keys);
		if (kv_setn(store, key, strlen(key), value, value_of(value, writer, number)) != KV_OK) return 1;
		struct timespec t;
		clock_gettime(CLOCK_MONOTONIC, &t);
		printf("A %u %u %lld\n", number % keys, number, t.tv_sec * 1000000000LL + t.tv_nsec);
	}
	return 0;
}

static int get_all(void *store, unsigned writer)
{
	static char wanted[largest + 1];
	char key[32];
	for (unsigned i = 0; i < keys; ++i) {
		snprintf(key, sizeof key, "w%u-%u", writer, i);
		char *value;
		size_t length;
		const int result = kv_getn(store, key, strlen(key), &value, &length);
		if (result == KV_MISSING) {
			printf("V %u 0\n", i);
			continue;
		}
		if (result != KV_OK) return 1;
		unsigned of_writer = 0, number = 0;
		if (length < 24 || sscanf(value, "%7u %14u", &of_writer, &number) != 2 || of_writer != writer ||
			value_of(wanted, writer, number) != length || memcmp(value, wanted, length) != 0) {
			fprintf(stderr, "numbered: key %s has a torn value of %zu bytes\n", key, length);
			return 3;
		}
		printf("V %u %u\n", i, number);
		kv_release(value);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 4) return 2;
	const unsigned writer = (unsigned)atoi(argv[2]);
	struct kv_options options = {.size = sizeof options, .protocol = "auto", .rendezvous = "read", .transport = "tcp"};
	void *store;
	if (kv_open_with(argv[1], &options, &store) != KV_OK) {
		fprintf(stderr, "numbered: %s\n", kv_last_error(NULL));
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	const int result =
		strcmp(argv[3], "get") == 0 ? get_all(store, writer) : set_all(store, writer, (unsigned)atoi(argv[3]));
	return result != 0 ? result : kv_close(store) == KV_OK ? 0 : 1;
}

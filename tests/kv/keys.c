// SPDX-License-Identifier: Apache-2.0
/* keys SERVERS TRANSPORT: kv_scan(), also with invalid arguments. The servers are empty. Prints
 * "all good", or the expectation that failed and ends with status 1. */
#include <string.h>

#include "expect.h"

enum { USERS = 1500, JOBS = 40 };

static void set(void *store, const char *name, int i)
{
	char key[32];
	snprintf(key, sizeof key, "%s:%d", name, i);
	EXPECT(kv_set(store, key, "value") == KV_OK);
}

/* Walks over the keys with the prefix "NAME:", and counts how often each number comes. */
static void walk(void *store, const char *name, size_t keys_max, int *times, int numbers)
{
	struct kv_cursor at = {0};
	struct kv_key *keys;
	size_t count;
	char prefix[32];
	memset(times, 0, (size_t)numbers * sizeof *times);
	snprintf(prefix, sizeof prefix, "%s:", name);
	do {
		EXPECT(kv_scan(store, &at, prefix, strlen(prefix), keys_max, &keys, &count) == KV_OK);
		EXPECT((keys == NULL) == (count == 0));
		for (size_t i = 0; i < count; ++i) {
			EXPECT(strlen(keys[i].key) == keys[i].key_length);
			EXPECT(strncmp(keys[i].key, prefix, strlen(prefix)) == 0);
			const int number = atoi(keys[i].key + strlen(prefix));
			EXPECT(number >= 0 && number < numbers);
			++times[number];
		}
		kv_release((char *)keys);
	} while (!at.done);
}

static void each_key_comes(void *store)
{
	static int times[USERS];
	const size_t pages[] = {0, 1, 7, 100000};
	for (int i = 0; i < USERS; ++i) set(store, "user", i);
	for (int i = 0; i < JOBS; ++i) set(store, "job", i);
	for (int i = 0; i < 4; ++i) {
		walk(store, "user", pages[i], times, USERS);
		for (int number = 0; number < USERS; ++number) EXPECT(times[number] == 1);
		walk(store, "job", pages[i], times, JOBS);
		for (int number = 0; number < JOBS; ++number) EXPECT(times[number] == 1);
		walk(store, "none", pages[i], times, 1);
		EXPECT(times[0] == 0);
	}
}

/* A key of any bytes, and the longest one. */
static void keys_are_bytes(void *store)
{
	static char longest[4096];
	struct kv_cursor at = {0};
	struct kv_key *keys;
	size_t count, found = 0;
	memset(longest, 'l', sizeof longest);
	EXPECT(kv_setn(store, "\0a\0", 3, "value", 5) == KV_OK);
	EXPECT(kv_setn(store, longest, sizeof longest, "value", 5) == KV_OK);
	do {
		EXPECT(kv_scan(store, &at, NULL, 0, 0, &keys, &count) == KV_OK);
		for (size_t i = 0; i < count; ++i) {
			found += keys[i].key_length == 3 && memcmp(keys[i].key, "\0a\0", 4) == 0;
			found += keys[i].key_length == sizeof longest && memcmp(keys[i].key, longest, sizeof longest) == 0;
		}
		kv_release((char *)keys);
	} while (!at.done);
	EXPECT(found == 2);
}

static void a_copy_of_a_cursor_continues_from_its_place(void *store)
{
	struct kv_cursor at = {0}, again = {0};
	struct kv_key *keys, *others;
	size_t count, same;
	for (int pages = 0; pages < 3; ++pages) {
		again = at;
		EXPECT(kv_scan(store, &at, "user:", 5, 5, &keys, &count) == KV_OK);
		EXPECT(kv_scan(store, &again, "user:", 5, 5, &others, &same) == KV_OK);
		EXPECT(memcmp(&at, &again, sizeof at) == 0 && count == same);
		for (size_t i = 0; i < count; ++i) EXPECT(strcmp(keys[i].key, others[i].key) == 0);
		kv_release((char *)keys);
		kv_release((char *)others);
	}
}

static void arguments_are_checked(void *store)
{
	struct kv_cursor at = {0}, done = {.done = 1};
	struct kv_key *keys;
	size_t count;
	EXPECT(kv_scan(NULL, &at, NULL, 0, 0, &keys, &count) == KV_INVALID);
	EXPECT(kv_scan(store, NULL, NULL, 0, 0, &keys, &count) == KV_INVALID);
	EXPECT(kv_scan(store, &at, NULL, 1, 0, &keys, &count) == KV_INVALID);
	EXPECT(kv_scan(store, &at, NULL, 0, 0, NULL, &count) == KV_INVALID);
	EXPECT(kv_scan(store, &at, NULL, 0, 0, &keys, NULL) == KV_INVALID);
	EXPECT(kv_scan(store, &done, NULL, 0, 0, &keys, &count) == KV_INVALID && keys == NULL && count == 0);
	static char long_prefix[4097];
	EXPECT(kv_scan(store, &at, long_prefix, sizeof long_prefix, 0, &keys, &count) == KV_LONG_KEY);
	EXPECT(at.done == 0 && at.server == 0);
}

int main(int argc, char **argv)
{
	void *store;
	if (argc != 3) return 2;
	struct kv_options options = {.size = sizeof options, .transport = argv[2]};
	if (kv_open_with(argv[1], &options, &store) != KV_OK) {
		fprintf(stderr, "keys: %s\n", kv_last_error(NULL));
		return 1;
	}
	each_key_comes(store);
	keys_are_bytes(store);
	a_copy_of_a_cursor_continues_from_its_place(store);
	arguments_are_checked(store);
	EXPECT(kv_close(store) == KV_OK);
	puts("all good");
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
/* mixed SERVER SEED STEPS SECONDS: fills a store with values of 1 B to 1 MiB, each doubling of the
 * size as likely as any other, and keeps it full by SETs, overwrites and DELs at random, until
 * STEPS changes are made or SECONDS are over. Checks one value of sixteen that it replaces, and all
 * at the end. Prints after each hundredth of the steps, or each second: the changes, the bytes of
 * all keys and values that are stored, and the bytes when the store was last full. */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <verbena/kv.h>

enum { KEYS = 1 << 20, MOST = 1 << 20, DOUBLINGS = 20 };

static char source[2 * MOST];
static uint32_t sizes[KEYS];    /* 0: the key is missing */
static uint32_t versions[KEYS];
static uint32_t present[KEYS], places[KEYS]; /* the keys that are there, and where each is listed */
static unsigned count;
static uint64_t state, stored, stored_when_full;

static uint32_t below(uint32_t bound)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((state >> 33) % bound);
}

static uint32_t any_size(void)
{
	const uint32_t least = 1u << below(DOUBLINGS);
	return least + below(least) + 1;
}

static const char *value_of(uint32_t key) { return source + (key * 31u + versions[key] * 977u) % MOST; }

static int key_of(uint32_t key, char *text) { return sprintf(text, "key%u", key); }

static int fail(void *store, const char *what)
{
	fprintf(stderr, "mixed: %s: %s\n", what, kv_last_error(store));
	exit(1);
}

static void check(void *store, uint32_t key)
{
	char text[16], *got;
	size_t length;
	if (kv_getn(store, text, (size_t)key_of(key, text), &got, &length) != KV_OK) fail(store, "GET");
	if (length != sizes[key] || memcmp(got, value_of(key), length) != 0) {
		fprintf(stderr, "mixed: %s is not what was set last\n", text);
		exit(3);
	}
	kv_release(got);
}

static void forget(uint32_t key)
{
	char text[16];
	stored -= sizes[key] + (uint64_t)key_of(key, text);
	sizes[key] = 0;
	present[places[key]] = present[--count];
	places[present[count]] = places[key];
}

static void delete_any(void *store)
{
	char text[16];
	const uint32_t key = present[below(count)];
	if (kv_deleten(store, text, (size_t)key_of(key, text)) != KV_OK) fail(store, "DEL");
	forget(key);
}

/* Sets a new key, or one that is there. A store that is full gets room by DELs. */
static void set_any(void *store)
{
	char text[16];
	const int fresh = count == 0 || below(4) != 0;
	const uint32_t key = fresh ? below(KEYS) : present[below(count)];
	const uint32_t size = any_size();
	if (sizes[key] != 0 && below(16) == 0) check(store, key);
	++versions[key];
	int result;
	while ((result = kv_setn(store, text, (size_t)key_of(key, text), value_of(key), size)) == KV_FULL) {
		stored_when_full = stored;
		delete_any(store);
	}
	if (result != KV_OK) fail(store, "SET");
	if (sizes[key] != 0) forget(key);
	sizes[key] = size;
	places[key] = count;
	present[count++] = key;
	stored += size + (uint64_t)key_of(key, text);
}

static double now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	void *store;
	if (argc != 5) return 2;
	state = strtoull(argv[2], NULL, 10);
	const uint64_t steps = strtoull(argv[3], NULL, 10);
	const double seconds = atof(argv[4]), begun = now();
	double shown = begun;
	for (unsigned i = 0; i < sizeof source; ++i) source[i] = (char)(i * 2654435761u >> 24);
	if (kv_open(argv[1], &store) != KV_OK) fail(NULL, "open");
	for (uint64_t i = 0; i < steps; ++i) {
		if (count > 0 && below(10) == 0) delete_any(store);
		else set_any(store);
		const double at = now();
		if (at - begun > seconds) break;
		if ((i + 1) % (steps / 100) != 0 && at - shown < 1) continue;
		shown = at;
		printf("%llu %llu %llu\n", (unsigned long long)i + 1, (unsigned long long)stored,
			(unsigned long long)stored_when_full);
		fflush(stdout);
	}
	for (unsigned i = 0; i < count; ++i) check(store, present[i]);
	return kv_close(store) == KV_OK ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
/* calls SERVER TRANSPORT PROTOCOL: uses every function of verbena/kv.h, also with invalid
 * arguments. Prints "all good", or the expectation that failed and ends with status 1. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <verbena/kv.h>

#include "expect.h"

static void strings(void *store)
{
	char *value = NULL;
	EXPECT(kv_set(store, "key", "one") == KV_OK);
	EXPECT(kv_set(store, "key", "two") == KV_OK);
	EXPECT(kv_get(store, "key", &value) == KV_OK && strcmp(value, "two") == 0);
	kv_release(value);
	EXPECT(kv_get(store, "missing", &value) == KV_OK && strcmp(value, "") == 0);
	kv_release(value);
	EXPECT(kv_set(store, "empty", "") == KV_OK);
	EXPECT(kv_get(store, "empty", &value) == KV_OK && strcmp(value, "") == 0);
	kv_release(value);
	EXPECT(kv_delete(store, "key") == KV_OK);
	EXPECT(kv_delete(store, "key") == KV_MISSING);
	kv_release(NULL);
}

static void bytes(void *store)
{
	char *value = NULL;
	size_t length = 0;
	EXPECT(kv_setn(store, "a\0b", 3, "\0v\0", 3) == KV_OK);
	EXPECT(kv_getn(store, "a\0b", 3, &value, &length) == KV_OK && length == 3 && memcmp(value, "\0v\0", 3) == 0);
	kv_release(value);
	EXPECT(kv_getn(store, "a\0c", 3, &value, &length) == KV_MISSING && value == NULL);
	EXPECT(kv_getn(store, "a", 1, &value, &length) == KV_MISSING);
	EXPECT(kv_setn(store, "none", 4, NULL, 0) == KV_OK);
	EXPECT(kv_getn(store, "none", 4, &value, &length) == KV_OK && length == 0);
	kv_release(value);
	EXPECT(kv_deleten(store, "a\0b", 3) == KV_OK);
}

static void conditions(void *store)
{
	char *value = NULL, large[20000];
	size_t length = 0;
	unsigned long long version = 9, first, seen;
	memset(large, 'x', sizeof large);
	kv_deleten(store, "cas", 3);
	EXPECT(kv_get_version(store, "cas", 3, &value, &length, &version) == KV_MISSING && value == NULL && version == 0);
	EXPECT(kv_del_if(store, "cas", 3, &(unsigned long long){7}) == KV_CHANGED);
	EXPECT(kv_cas(store, "cas", 3, "one", 3, &version) == KV_OK && version != 0);
	first = version;
	seen = 0;
	EXPECT(kv_cas(store, "cas", 3, "two", 3, &seen) == KV_CHANGED && seen == first);
	EXPECT(kv_cas(store, "cas", 3, large, sizeof large, &version) == KV_OK && version > first);
	EXPECT(kv_get_version(store, "cas", 3, &value, &length, &seen) == KV_OK && length == sizeof large);
	EXPECT(seen == version && memcmp(value, large, length) == 0);
	/* From registered memory, without a copy. */
	EXPECT(kv_cas(store, "cas", 3, value, length, &seen) == KV_OK && seen > version);
	kv_release(value);
	EXPECT(kv_del_if(store, "cas", 3, &version) == KV_CHANGED && version == seen);
	EXPECT(kv_del_if(store, "cas", 3, &version) == KV_OK && version > seen);
	EXPECT(kv_getn(store, "cas", 3, &value, &length) == KV_MISSING);
	seen = ULLONG_MAX;  /* was "any version", as in a message */
	EXPECT(kv_cas(store, "cas", 3, "x", 1, &seen) == KV_INVALID && kv_del_if(store, "cas", 3, &seen) == KV_INVALID);
	EXPECT(kv_cas(store, "cas", 3, "x", 1, NULL) == KV_INVALID && kv_del_if(store, NULL, 3, &version) == KV_INVALID);
	EXPECT(kv_get_version(store, "cas", 3, &value, &length, NULL) == KV_INVALID);
}

static void errors(void *store)
{
	static char long_key[4098];
	char *value = NULL;
	void *nothing = NULL;
	size_t length;
	memset(long_key, 'k', sizeof long_key - 1);
	EXPECT(kv_set(store, "", "value") == KV_EMPTY_KEY);
	EXPECT(kv_get(store, long_key, &value) == KV_LONG_KEY);
	char *huge = malloc((64u << 20) + 1);
	EXPECT(kv_setn(store, "key", 3, huge, (64u << 20) + 1) == KV_LONG_VALUE);
	free(huge);
	EXPECT(kv_set(NULL, "key", "value") == KV_INVALID && kv_set(store, NULL, "value") == KV_INVALID);
	/* The reason was that of the failure before. */
	EXPECT(kv_set(store, "", "v") == KV_EMPTY_KEY && kv_set(store, "key", NULL) == KV_INVALID);
	EXPECT(strcmp(kv_last_error(store), "kv_set: key or value is NULL") == 0);
	EXPECT(kv_wait(store, NULL, -1, 0, 0) == KV_INVALID && strstr(kv_last_error(store), "kv_wait: ") != NULL);
	EXPECT(kv_open(NULL, &nothing) == KV_INVALID && strstr(kv_last_error(NULL), "kv_open: ") != NULL);
	EXPECT(kv_fd(NULL) == KV_INVALID && strcmp(kv_last_error(NULL), "the handle is NULL") == 0);
	EXPECT(kv_getn(store, "key", 3, NULL, &length) == KV_INVALID);
	for (int result = KV_CHANGED; result >= KV_DISK; --result) EXPECT(strlen(kv_strerror(result)) > 0);
	EXPECT(kv_set(store, "key", "the handle still works") == KV_OK);
}

static void large(void *store)
{
	for (size_t size = 4000; size < 9000000; size *= 3) {
		char *mine = malloc(size), *value = NULL;
		size_t length = 0;
		for (size_t i = 0; i < size; ++i) mine[i] = (char)(i * 7 + size);
		EXPECT(kv_setn(store, "large", 5, mine, size) == KV_OK);
		EXPECT(kv_getn(store, "large", 5, &value, &length) == KV_OK && length == size && memcmp(value, mine, size) == 0);
		EXPECT(value[size] == 0);
		/* Sets the fetched value from its place in registered memory. */
		EXPECT(kv_setn(store, "again", 5, value, length) == KV_OK);
		kv_release(value);
		EXPECT(kv_getn(store, "again", 5, &value, &length) == KV_OK && length == size && memcmp(value, mine, size) == 0);
		kv_release(value);
		free(mine);
	}
}

static void asynchronous(void *store)
{
	static char value[20000];
	for (int i = 0; i < 3000; ++i) {
		char key[16];
		snprintf(key, sizeof key, "async %d", i % 100);
		size_t size = (size_t)i * 13 % sizeof value;
		memset(value, 'a' + i % 26, size);
		EXPECT(kv_setn_async(store, key, strlen(key), value, size) == KV_OK);
		memset(value, '?', size); /* the caller may reuse its memory */
	}
	char *got = NULL;
	size_t length = 0;
	EXPECT(kv_getn(store, "async 99", 8, &got, &length) == KV_OK && length == 2999 * 13 % sizeof value);
	for (size_t i = 0; i < length; ++i) EXPECT(got[i] == 'a' + 2999 % 26);
	kv_release(got);
	EXPECT(kv_flush(store) == KV_OK);
	EXPECT(kv_set_async(store, "", "value") == KV_OK);
	EXPECT(kv_flush(store) == KV_EMPTY_KEY);
	EXPECT(kv_flush(store) == KV_OK);
	EXPECT(kv_set_async(store, "last", "value") == KV_OK);
}

/* With the client's own limit `eager_max`, a value of this size is eager, or the server gets a
 * lease to read it. */
static void rule(char *server, size_t eager_max, size_t size, int eager)
{
	static char value[50000];
	void *store = NULL;
	struct kv_counters counters = {.size = sizeof counters};
	struct kv_options options = {.size = sizeof options, .eager_max = eager_max};
	EXPECT(kv_open_with(server, &options, &store) == KV_OK);
	EXPECT(kv_setn(store, "rule", 4, value, size) == KV_OK);
	EXPECT(kv_read_counters(store, &counters) == KV_OK);
	EXPECT(counters.eager == (eager ? 1 : 0) && counters.leased == (eager ? 0 : 1));
	EXPECT(kv_close(store) == KV_OK);
}

struct worker {
	void *store;
	int number;
};

/* One of several threads that share a handle: each gets the values that it set, and whole error
 * texts. */
static void *work(void *argument)
{
	const struct worker *worker = argument;
	void *store = worker->store;
	char long_key[4098] = {0};
	memset(long_key, 'k', sizeof long_key - 1);
	for (int i = 0; i < 500; ++i) {
		char key[32], value[32], *got = NULL;
		snprintf(key, sizeof key, "thread %d.%d", worker->number, i % 10);
		snprintf(value, sizeof value, "%d of %d", i, worker->number);
		EXPECT(kv_set(store, key, value) == KV_OK);
		EXPECT(kv_get(store, key, &got) == KV_OK && strcmp(got, value) == 0);
		kv_release(got);
		EXPECT(kv_set_async(store, key, value) == KV_OK);
		EXPECT(kv_set(store, worker->number == 0 ? "" : long_key, "value") == (worker->number == 0 ? KV_EMPTY_KEY : KV_LONG_KEY));
		EXPECT(strstr(kv_last_error(store), "a key has 1 to 4096 bytes") != NULL);
	}
	return NULL;
}

static void threads(void *store)
{
	pthread_t running[2];
	struct worker workers[2] = {{store, 0}, {store, 1}};
	for (int i = 0; i < 2; ++i) EXPECT(pthread_create(&running[i], NULL, work, &workers[i]) == 0);
	for (int i = 0; i < 2; ++i) EXPECT(pthread_join(running[i], NULL) == 0);
	EXPECT(kv_flush(store) == KV_OK);
}

/* The library serves programs that were built with another version of the header, whose structures
 * have fewer or more members. */
static void versions(char *server, void *store)
{
	struct {
		struct kv_counters known;
		unsigned long long later;
	} newer = {.known = {.size = sizeof newer}, .later = 7};
	EXPECT(kv_read_counters(store, &newer.known) == KV_OK);
	EXPECT(newer.known.size == sizeof newer && newer.known.operations > 0 && newer.later == 0);
	struct kv_counters older = {.size = offsetof(struct kv_counters, messages), .messages = 7};
	EXPECT(kv_read_counters(store, &older) == KV_OK && older.operations > 0 && older.messages == 7);
	struct kv_counters none = {.size = 0};
	EXPECT(kv_read_counters(store, &none) == KV_INVALID);

	void *second = NULL;
	struct kv_options options = {.size = offsetof(struct kv_options, device), .timeout_ms = -7, .no_retry = 7};
	EXPECT(kv_open_with(server, &options, &second) == KV_OK && kv_close(second) == KV_OK);
	options.size = sizeof options + 1;
	EXPECT(kv_open_with(server, &options, &second) == KV_INVALID && second == NULL);
}

int main(int argc, char **argv)
{
	void *store = NULL;
	char *kept = NULL;
	struct kv_counters counters = {.size = sizeof counters};
	struct kv_options options = {.size = sizeof options, .transport = argv[2], .protocol = argv[3]};
	EXPECT(argc == 4);
	struct kv_options wrong = {.size = sizeof wrong, .transport = "pigeon"};
	EXPECT(kv_open_with(argv[1], &wrong, &store) == KV_INVALID && store == NULL);
	wrong = (struct kv_options){.size = sizeof wrong, .transport = "tcp", .protocol = "rndv"};
	EXPECT(kv_open_with(argv[1], &wrong, &store) == KV_UNSUPPORTED && store == NULL);
	EXPECT(kv_open("127.0.0.1:1,", &store) == KV_UNREACHABLE && strstr(kv_last_error(NULL), "empty server name"));
	EXPECT(kv_open("127.0.0.1:1", &store) == KV_UNREACHABLE && strlen(kv_last_error(NULL)) > 0);
	EXPECT(kv_open(NULL, &store) == KV_INVALID);
	EXPECT(kv_open_with(argv[1], &options, &store) == KV_OK);
	strings(store);
	bytes(store);
	conditions(store);
	errors(store);
	large(store);
	threads(store);
	asynchronous(store);
	EXPECT(kv_setn(store, "kept", 4, "kept", 4) == KV_OK);
	EXPECT(kv_get(store, "again", &kept) == KV_OK);
	EXPECT(kv_read_counters(store, &counters) == KV_OK && counters.operations > 3000);
	versions(argv[1], store);
	EXPECT(kv_close(store) == KV_OK);
	store = NULL;
	/* A value may be released after its handle has been closed. */
	EXPECT(kept[0] != 0 || kept[1] != 0);
	kv_release(kept);
	if (strcmp(argv[2], "rdma") == 0) {
		rule(argv[1], 1000, 2000, 0);
		rule(argv[1], 60000, 50000, 1);
	}
	puts("all good");
	return 0;
}

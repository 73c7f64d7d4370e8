// SPDX-License-Identifier: Apache-2.0
/* batches SERVER TRANSPORT PROTOCOL: many operations at once by kv_submit(), kv_wait(), kv_fd() and
 * kv_mget(), also with invalid arguments. Prints "all good", or the expectation that failed and
 * ends with status 1. */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "expect.h"

enum { MANY = 64, LIMIT = 4096, SIZES = 4 };

static long long now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static const size_t sizes[SIZES] = {64, 0, 3000, 70000};
static char keys[LIMIT + 1000][16];

static struct kv_op op_of(int kind, int i)
{
	snprintf(keys[i], sizeof keys[i], "key %d", i);
	return (struct kv_op){.size = sizeof(struct kv_op), .kind = kind, .key = keys[i], .key_length = strlen(keys[i]), .user = keys[i]};
}

static void put(void *store, const char *key, const char *value) { EXPECT(kv_set(store, key, value) == KV_OK); }

/* Submits n ops and waits for all. */
static void do_all(void *store, struct kv_op *ops, int n)
{
	struct kv_op *done[MANY];
	char seen[MANY] = {0};
	EXPECT(kv_submit(store, ops, n) == n);
	for (int left = n; left > 0;) {
		const int got = kv_wait(store, done, MANY, 1, -1);
		EXPECT(got > 0 && got <= left);
		for (int i = 0; i < got; ++i) {
			EXPECT(done[i] >= ops && done[i] < ops + n && !seen[done[i] - ops]++);
			EXPECT(done[i]->user == keys[done[i] - ops]);
		}
		left -= got;
	}
	EXPECT(kv_wait(store, done, MANY, 1, -1) == 0); /* none is under way */
}

static void each_op_is_done_once(void *store)
{
	static char values[MANY][70000];
	struct kv_op ops[MANY];
	for (int i = 0; i < MANY; ++i) {
		ops[i] = op_of(KV_OP_SET, i);
		ops[i].value = values[i];
		ops[i].value_length = sizes[i % SIZES];
		memset(values[i], 'a' + i % 26, ops[i].value_length);
	}
	do_all(store, ops, MANY);
	for (int i = 0; i < MANY; ++i) EXPECT(ops[i].result == KV_OK && ops[i].value == values[i]);
	for (int i = 0; i < MANY; ++i) ops[i] = op_of(KV_OP_GET, i);
	do_all(store, ops, MANY);
	for (int i = 0; i < MANY; ++i) {
		EXPECT(ops[i].result == KV_OK && ops[i].value_length == sizes[i % SIZES]);
		EXPECT(memcmp(ops[i].value, values[i], ops[i].value_length) == 0 && ops[i].value[ops[i].value_length] == 0);
		/* A SET from the place at which the GET returned it. */
		ops[i].kind = KV_OP_SET;
	}
	do_all(store, ops, MANY);
	for (int i = 0; i < MANY; ++i) {
		EXPECT(ops[i].result == KV_OK);
		kv_release(ops[i].value);
		ops[i].kind = KV_OP_DEL;
	}
	do_all(store, ops, MANY);
	for (int i = 0; i < MANY; ++i) EXPECT(ops[i].result == KV_OK);
	do_all(store, ops, MANY);
	for (int i = 0; i < MANY; ++i) EXPECT(ops[i].result == KV_MISSING);
}

static void each_op_fails_alone(void *store)
{
	static char long_key[4098], stays[] = "stays";
	struct kv_op ops[12];
	put(store, "key 0", "zero");
	put(store, "key 11", "eleven");
	for (int i = 0; i < 12; ++i) ops[i] = op_of(KV_OP_GET, i);
	ops[1].key = NULL;
	ops[2].kind = 77;
	ops[2].value = stays;
	ops[3].flags = 2;
	ops[4].ttl_ms = 1;
	ops[5].key_length = 0;
	ops[6].key = long_key;
	ops[6].key_length = 4097;
	ops[7].kind = KV_OP_SET;
	ops[7].value_length = 1;
	ops[8].kind = KV_OP_SET;
	ops[8].flags = KV_OP_VERSION;
	ops[8].version = 99;
	ops[8].value = stays;
	ops[9].kind = KV_OP_SET;
	ops[9].value = stays;
	ops[9].value_length = (64u << 20) + 1; /* not read */
	ops[10].size = sizeof ops[10] - 8;
	do_all(store, ops, 12);
	EXPECT(ops[0].result == KV_OK && strcmp(ops[0].value, "zero") == 0);
	for (int i = 1; i <= 4; ++i) EXPECT(ops[i].result == KV_INVALID);
	EXPECT(ops[2].value == stays && ops[1].value == NULL);
	EXPECT(ops[5].result == KV_EMPTY_KEY && ops[6].result == KV_LONG_KEY && ops[7].result == KV_INVALID);
	EXPECT(ops[8].result == KV_CHANGED && ops[8].version == 0 && ops[8].value == stays);
	EXPECT(ops[9].result == KV_LONG_VALUE && ops[10].result == KV_INVALID);
	EXPECT(ops[11].result == KV_OK && strcmp(ops[11].value, "eleven") == 0);
	kv_release(ops[0].value);
	kv_release(ops[11].value);

	struct kv_op forever = op_of(KV_OP_DEL, 1);
	forever.ttl_ms = 1;
	do_all(store, (forever.user = keys[0], &forever), 1);
	EXPECT(forever.result == KV_INVALID && strstr(kv_last_error(store), "ttl_ms") != NULL);
}

/* A key with a time to live is there, and missing when its time is over. */
static void times_to_live(void *store)
{
	struct kv_op brief = op_of(KV_OP_SET, 1), day = op_of(KV_OP_SET, 2), get = op_of(KV_OP_GET, 1);
	static char text[] = "brief";
	brief.value = day.value = text;
	brief.value_length = day.value_length = 5;
	brief.user = day.user = get.user = keys[0]; /* as do_all() expects of a first op */
	brief.ttl_ms = 1;
	day.ttl_ms = 24u * 3600 * 1000;
	do_all(store, &brief, 1);
	do_all(store, &day, 1);
	EXPECT(brief.result == KV_OK && day.result == KV_OK);
	do do_all(store, &get, 1), kv_release(get.value);
	while (get.result == KV_OK);
	EXPECT(get.result == KV_MISSING);
	get = op_of(KV_OP_GET, 2);
	get.user = keys[0];
	do_all(store, &get, 1);
	EXPECT(get.result == KV_OK && strcmp(get.value, "brief") == 0);
	kv_release(get.value);
	EXPECT(kv_delete(store, keys[2]) == KV_OK);
}

static void arguments(void *store)
{
	struct kv_op op = op_of(KV_OP_GET, 0), *done[1];
	EXPECT(kv_submit(NULL, &op, 1) == KV_INVALID && kv_submit(store, NULL, 1) == KV_INVALID);
	EXPECT(kv_submit(store, &op, -1) == KV_INVALID && kv_submit(store, NULL, 0) == 0 && kv_submit(store, &op, 0) == 0);
	EXPECT(kv_mget(NULL, &op, 1) == KV_INVALID && kv_do(NULL, &op, 1) == KV_INVALID && kv_do(store, &op, -1) == KV_INVALID);
	EXPECT(kv_mget(store, NULL, 1) == KV_INVALID && kv_mget(store, NULL, 0) == KV_OK);
	EXPECT(kv_wait(NULL, done, 1, 0, 0) == KV_INVALID && kv_wait(store, NULL, 1, 0, 0) == KV_INVALID);
	EXPECT(kv_wait(store, done, -1, 0, 0) == KV_INVALID && kv_wait(store, done, 1, -1, 0) == KV_INVALID);
	EXPECT(kv_wait(store, NULL, 0, 0, 0) == 0 && kv_wait(store, done, 1, 1, -1) == 0 && kv_wait(store, done, 1, 1, 5) == 0);
	EXPECT(kv_fd(NULL) == KV_INVALID);
	op.size = 0;
	EXPECT(kv_submit(store, &op, 1) == KV_INVALID);
	op.size = sizeof op + 8; /* a later version, whose members this one would ignore */
	EXPECT(kv_submit(store, &op, 1) == KV_INVALID && strstr(kv_last_error(store), "kv_op.size") != NULL);
	op.size = sizeof op + 1;
	EXPECT(kv_mget(store, &op, 1) == KV_INVALID);
}

static void versions(void *store)
{
	struct kv_op op = op_of(KV_OP_SET, 0);
	kv_delete(store, keys[0]);
	op.flags = KV_OP_VERSION;
	op.value = (char *)"first";
	op.value_length = 5;
	do_all(store, &op, 1);
	EXPECT(op.result == KV_OK && op.version > 0);
	const unsigned long long first = op.version;
	op.value = (char *)"second";
	op.value_length = 6;
	do_all(store, &op, 1);
	EXPECT(op.result == KV_OK && op.version > first);
	op.kind = KV_OP_GET;
	do_all(store, &op, 1);
	EXPECT(op.result == KV_OK && op.version > first && strcmp(op.value, "second") == 0);
	kv_release(op.value);
	const unsigned long long second = op.version;
	op.kind = KV_OP_DEL;
	op.version = first;
	do_all(store, &op, 1);
	EXPECT(op.result == KV_CHANGED && op.version == second);
	do_all(store, &op, 1);
	EXPECT(op.result == KV_OK && op.version > second);
	op.kind = KV_OP_GET;
	do_all(store, &op, 1);
	EXPECT(op.result == KV_MISSING && op.version == 0 && op.value == NULL);
}

static void a_full_window_takes_no_more(void *store)
{
	static struct kv_op ops[LIMIT + 1000];
	static struct kv_op *done[LIMIT];
	const int n = LIMIT + 1000;
	for (int i = 0; i < n; ++i) {
		ops[i] = op_of(KV_OP_SET, i);
		ops[i].value = keys[i];
		ops[i].value_length = strlen(keys[i]);
	}
	EXPECT(kv_submit(store, ops, n) == LIMIT);
	EXPECT(kv_submit(store, ops + LIMIT, 1000) == 0);
	EXPECT(kv_wait(store, done, 10, 10, -1) == 10);
	EXPECT(kv_submit(store, ops + LIMIT, 1000) == 10);
	EXPECT(kv_wait(store, done, LIMIT, LIMIT, -1) == LIMIT);
	EXPECT(kv_submit(store, ops + LIMIT + 10, 990) == 990);
	EXPECT(kv_wait(store, done, LIMIT, LIMIT, -1) == 990); /* no more are under way */
	for (int i = 0; i < n; ++i) EXPECT(ops[i].result == KV_OK);

	/* kv_mget() has no limit, and leaves the ops of kv_submit() alone. */
	struct kv_op other = op_of(KV_OP_GET, 5);
	EXPECT(kv_submit(store, &other, 1) == 1);
	for (int i = 0; i < n; ++i) ops[i].kind = KV_OP_GET;
	EXPECT(kv_mget(store, ops, n) == KV_OK);
	for (int i = 0; i < n; ++i) {
		EXPECT(ops[i].result == KV_OK && strcmp(ops[i].value, keys[i]) == 0);
		kv_release(ops[i].value);
	}
	EXPECT(kv_wait(store, done, LIMIT, 1, -1) == 1 && done[0] == &other && strcmp(other.value, "key 5") == 0);
	kv_release(other.value);
}

static void mget(void *store)
{
	struct kv_op ops[3];
	for (int i = 0; i < 3; ++i) ops[i] = op_of(KV_OP_GET, i);
	put(store, keys[0], "zero");
	kv_delete(store, keys[1]);
	put(store, keys[2], "two");
	EXPECT(kv_mget(store, ops, 3) == KV_OK);
	EXPECT(ops[0].result == KV_OK && ops[1].result == KV_MISSING && ops[2].result == KV_OK);
	EXPECT(strcmp(ops[0].value, "zero") == 0 && ops[1].value == NULL && strcmp(ops[2].value, "two") == 0);
	kv_release(ops[0].value);
	kv_release(ops[2].value);
	ops[0].kind = KV_OP_DEL; /* kv_mget() does GETs */
	ops[1].key_length = 0;
	EXPECT(kv_mget(store, ops, 3) == KV_EMPTY_KEY && strstr(kv_last_error(store), "empty") != NULL);
	EXPECT(ops[0].result == KV_OK && ops[1].result == KV_EMPTY_KEY && ops[2].result == KV_OK);
	kv_release(ops[0].value);
	kv_release(ops[2].value);

	ops[0].kind = KV_OP_DEL;
	ops[1] = op_of(KV_OP_SET, 1);
	ops[1].value = keys[1];
	ops[1].value_length = 3;
	EXPECT(kv_do(store, ops, 3) == KV_OK);
	EXPECT(ops[0].result == KV_OK && ops[1].result == KV_OK && ops[2].result == KV_OK);
	kv_release(ops[2].value);
	EXPECT(kv_do(store, ops, 1) == KV_OK && ops[0].result == KV_MISSING);
}

/* An event loop that sleeps in poll() alone. */
static void by_descriptor(void *store)
{
	struct kv_op ops[MANY], *done[7];
	struct pollfd fd = {.fd = kv_fd(store), .events = POLLIN};
	EXPECT(fd.fd >= 0 && kv_fd(store) == fd.fd);
	for (int round = 0; round < 50; ++round) {
		for (int i = 0; i < MANY; ++i) {
			ops[i] = op_of(i % 2 == round % 2 ? KV_OP_GET : KV_OP_SET, i);
			ops[i].value = keys[i];
			ops[i].value_length = sizeof keys[i];
		}
		EXPECT(kv_submit(store, ops, MANY) == MANY);
		/* Other calls on the handle do the work, and the ops are not lost. */
		if (round % 5 == 0) put(store, "another", "value");
		for (int left = MANY; left > 0;) {
			EXPECT(poll(&fd, 1, 20000) == 1);
			for (int got = 1; got > 0; left -= got) got = kv_wait(store, done, 7, 0, 0);
		}
		for (int i = 0; i < MANY; ++i) {
			EXPECT(ops[i].result == KV_OK || (ops[i].kind == KV_OP_GET && ops[i].result == KV_MISSING));
			if (ops[i].kind == KV_OP_GET) kv_release(ops[i].value);
		}
	}
	/* Without work a program that waits does not spin. A connection over RDMA looks after its peer
	 * some times in a second. */
	int woken = 0;
	for (const long long end = now_ms() + 500; now_ms() < end; ++woken)
		if (poll(&fd, 1, 500) == 1) EXPECT(kv_wait(store, done, 7, 0, 0) == 0);
	EXPECT(woken < 100);
}

static void the_order_with_asynchronous_sets(void *store)
{
	for (int i = 0; i < 100; ++i) {
		char value[16];
		struct kv_op op = op_of(KV_OP_GET, 0);
		snprintf(value, sizeof value, "%d", i);
		EXPECT(kv_set_async(store, keys[0], value) == KV_OK);
		do_all(store, &op, 1);
		EXPECT(op.result == KV_OK && strcmp(op.value, value) == 0);
		kv_release(op.value);
	}
	EXPECT(kv_flush(store) == KV_OK);
}

int main(int argc, char **argv)
{
	void *store = NULL;
	if (argc != 4) return 2;
	struct kv_options options = {.size = sizeof options, .transport = argv[2], .protocol = argv[3]};
	EXPECT(kv_open_with(argv[1], &options, &store) == KV_OK);
	each_op_is_done_once(store);
	each_op_fails_alone(store);
	times_to_live(store);
	arguments(store);
	versions(store);
	a_full_window_takes_no_more(store);
	mget(store);
	the_order_with_asynchronous_sets(store);
	by_descriptor(store);
	the_order_with_asynchronous_sets(store);

	/* kv_close() ends the ops that are under way. */
	struct kv_op ops[MANY];
	put(store, "key 7", "seven");
	for (int i = 0; i < MANY; ++i) ops[i] = op_of(i == 7 ? KV_OP_GET : KV_OP_DEL, i);
	for (int i = 0; i < MANY; ++i) ops[i].result = INT_MAX;
	EXPECT(kv_submit(store, ops, MANY) == MANY);
	EXPECT(kv_close(store) == KV_OK);
	store = NULL;
	for (int i = 0; i < MANY; ++i) EXPECT(ops[i].result == KV_OK || ops[i].result == KV_MISSING);
	EXPECT(ops[7].result == KV_OK && strcmp(ops[7].value, "seven") == 0);
	kv_release(ops[7].value); /* a value may outlive its handle */
	puts("all good");
	return 0;
}

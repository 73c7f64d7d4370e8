// SPDX-License-Identifier: Apache-2.0
/* rates SERVER WAY BATCH THREADS LANES SECONDS: GETs of values of 64 B by the C library. WAY is get
 * (one after the other), mget (BATCH at once) or submit (BATCH under way, each replaced when it is
 * done). Prints the values a second, and the processor time of this process for each, in ns. */
#define _DEFAULT_SOURCE
#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <verbena/kv.h>

enum { KEYS = 64, SIZE = 64, BATCH_MAX = 1024 };

static void *store;
static const char *way;
static int batch;
static atomic_int is_over;
static atomic_ullong total;

static double seconds_of(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void need(int condition)
{
	if (!condition) errx(1, "%s", kv_last_error(store));
}

/* Checks a value, and frees it. */
static void take(struct kv_op *op)
{
	need(op->result == KV_OK && op->value_length == SIZE && memcmp(op->value, op->key, op->key_length) == 0);
	kv_release(op->value);
}

static void *work(void *number)
{
	static _Thread_local char keys[KEYS][16];
	static _Thread_local struct kv_op ops[BATCH_MAX], *done[BATCH_MAX];
	unsigned long long count = 0;
	for (int i = 0; i < batch; ++i) {
		snprintf(keys[i % KEYS], sizeof keys[0], "%d:%04d", *(int *)number, i % KEYS);
		ops[i] = (struct kv_op){.size = sizeof ops[i], .kind = KV_OP_GET, .key = keys[i % KEYS], .key_length = 6};
		char value[SIZE] = {0};
		memcpy(value, keys[i % KEYS], 6);
		need(kv_setn(store, keys[i % KEYS], 6, value, SIZE) == KV_OK);
	}
	if (strcmp(way, "submit") == 0) need(kv_submit(store, ops, batch) == batch);
	while (!is_over) {
		if (strcmp(way, "get") == 0) {
			struct kv_op *op = &ops[count % (unsigned)batch];
			need(kv_getn(store, op->key, 6, &op->value, &op->value_length) == KV_OK);
			take(op);
			++count;
		} else if (strcmp(way, "mget") == 0) {
			need(kv_mget(store, ops, batch) == KV_OK);
			for (int i = 0; i < batch; ++i) take(&ops[i]);
			count += (unsigned)batch;
		} else {
			const int n = kv_wait(store, done, batch, 1, -1);
			need(n > 0);
			for (int i = 0; i < n; ++i) {
				take(done[i]);
				need(kv_submit(store, done[i], 1) == 1);
			}
			count += (unsigned)n;
		}
	}
	if (strcmp(way, "submit") == 0) {
		need(kv_wait(store, done, batch, batch, -1) == batch);
		for (int i = 0; i < batch; ++i) take(&ops[i]);
	}
	total += count;
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 7) errx(2, "usage: rates SERVER get|mget|submit BATCH THREADS LANES SECONDS");
	way = argv[2];
	batch = atoi(argv[3]);
	const int threads = atoi(argv[4]);
	struct kv_options options = {.size = sizeof options, .lanes = (size_t)atoi(argv[5])};
	if (batch < 1 || batch > BATCH_MAX || threads < 1 || threads > 64) errx(2, "a number is out of range");
	if (kv_open_with(argv[1], &options, &store) != KV_OK) errx(1, "%s", kv_last_error(NULL));
	pthread_t running[64];
	int numbers[64];
	const double begun = seconds_of(CLOCK_MONOTONIC), used = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < threads; ++i) {
		numbers[i] = i;
		if (pthread_create(&running[i], NULL, work, &numbers[i]) != 0) errx(1, "no thread can be made");
	}
	const double length = atof(argv[6]);
	const struct timespec pause = {.tv_sec = (time_t)length, .tv_nsec = (long)((length - (double)(time_t)length) * 1e9)};
	nanosleep(&pause, NULL);
	is_over = 1;
	for (int i = 0; i < threads; ++i) pthread_join(running[i], NULL);
	const double took = seconds_of(CLOCK_MONOTONIC) - begun, cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - used;
	printf("%.0f %.0f\n", (double)total / took, cpu / (double)total * 1e9);
	return kv_close(store) != KV_OK;
}

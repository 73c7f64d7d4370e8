// SPDX-License-Identifier: Apache-2.0
/* history SERVER ID SECONDS KEYS PROTOCOL FORM [SETS_PER_CENT [retry|on]]: SETs and GETs a few
 * keys at random and prints each operation with its times, for a check of linearizability. It ends
 * with status 1 at the first operation that fails, and with status 0 after SECONDS or at SIGTERM.
 * Without "retry" an operation fails when its connection is lost; with it, operations are sent
 * again, and the last line is "retries NUMBER". With "on" they are sent again, too, and the program
 * goes on after one that fails.
 *
 * PROTOCOL is one of kv_options.protocol, onesided (auto, with one-sided GETs) or tcp (auto, over
 * TCP). Each client also has a key of its own, which only it SETs and DELs, and which the other
 * clients with the same ID / 10 GET.
 *
 *     S key number begin               begins a SET of this client's value of this number
 *     D key number begin               begins a DEL
 *     E key number end result          the SET or DEL of this number has ended, with this kv_result
 *     G key writer number begin end    a GET that returned this value; "- 0": the key was missing
 *
 * A value contains its writer and number, from which its other bytes follow. A GET that returns any
 * other bytes is a torn value: the program then ends with status 3.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <verbena/kv.h>

static volatile sig_atomic_t ended; /* SIGTERM: the last operation is done in order */

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static size_t value_of(char *to, unsigned writer, unsigned number)
{
	static const size_t sizes[] = {24, 100, 3000, 5000, 70000};
	const size_t size = sizes[(writer + number) % 5];
	snprintf(to, 24, "%07u %014u", writer, number);
	for (size_t i = 24; i < size; ++i) to[i] = (char)(writer * 31 + number * 7 + i);
	return size;
}

static int failed(void *store, int result)
{
	fprintf(stderr, "history: %d: %s\n", result, kv_last_error(store));
	return 1;
}

int main(int argc, char **argv)
{
	if (argc < 7) return 2;
	const unsigned id = (unsigned)atoi(argv[2]), keys = (unsigned)atoi(argv[4]);
	const long long until = now() + (long long)(atof(argv[3]) * 1e9);
	const unsigned sets = argc > 7 ? (unsigned)atoi(argv[7]) : 50;
	static char mine[70001], wanted[70001];
	const int one_sided = strcmp(argv[5], "onesided") == 0;
	struct kv_options options = {
		.size = sizeof options, .protocol = one_sided ? "auto" : argv[5], .rendezvous = argv[6], .one_sided = one_sided};
	const int on = argc > 8 && strcmp(argv[8], "on") == 0, retries = on || (argc > 8 && strcmp(argv[8], "retry") == 0);
	options.no_retry = !retries;
	if (!retries) options.timeout_ms = 5000;
	if (strcmp(argv[5], "tcp") == 0) {
		options.protocol = "auto";
		options.transport = "tcp";
	}
	void *store;
	if (kv_open_with(argv[1], &options, &store) != KV_OK) {
		fprintf(stderr, "history: %s\n", kv_last_error(NULL));
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = end, .sa_flags = SA_RESTART}, NULL);
	srand(id * 7919 + 1);
	int there = 0; /* this client's own key exists */
	for (unsigned number = 1; now() < until && !ended; ++number) {
		char key[16];
		const int own = rand() % 4 == 0, changes = (unsigned)rand() % 100 < sets;
		if (!own) snprintf(key, sizeof key, "key%u", (unsigned)rand() % keys);
		else snprintf(key, sizeof key, "own%u", changes ? id : id / 10 * 10 + 1 + (unsigned)rand() % 4);
		if (changes) {
			const int removes = own && there;
			const size_t size = value_of(mine, id, number);
			printf("%c %s %u %lld\n", removes ? 'D' : 'S', key, number, now());
			const int result = removes ? kv_deleten(store, key, strlen(key)) : kv_setn(store, key, strlen(key), mine, size);
			if (own && result != KV_DISK) there = !removes;
			printf("E %s %u %lld %d\n", key, number, now(), result);
			/* A server whose disk is full has changed nothing. */
			if (result == KV_DISK) continue;
			/* A server that has started anew has not this key. */
			if (result != KV_OK && !(retries && removes && result == KV_MISSING) && !on) return failed(store, result);
			continue;
		}
		const long long begin = now();
		char *value;
		size_t length;
		const int result = kv_getn(store, key, strlen(key), &value, &length);
		const long long end = now();
		if (result == KV_MISSING) {
			printf("G %s - 0 %lld %lld\n", key, begin, end);
			continue;
		}
		if (result != KV_OK && on) continue;
		if (result != KV_OK) return failed(store, result);
		unsigned writer = 0, of = 0;
		if (length < 24 || sscanf(value, "%7u %14u", &writer, &of) != 2 || value_of(wanted, writer, of) != length ||
			memcmp(value, wanted, length) != 0) {
			fprintf(stderr, "history: a torn value of %zu bytes\n", length);
			return 3;
		}
		printf("G %s %u %u %lld %lld\n", key, writer, of, begin, end);
		kv_release(value);
	}
	if (retries) {
		struct kv_counters counters = {.size = sizeof counters};
		kv_read_counters(store, &counters);
		printf("retries %llu\n", counters.retries);
	}
	return kv_close(store) == KV_OK ? 0 : 1;
}

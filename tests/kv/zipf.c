// SPDX-License-Identifier: Apache-2.0
/* zipf SERVER: uses a server as a cache. Asks for 1,000,000 keys of 100,000, whose popularity falls
 * with the power 0.99 of their rank, and sets each that is missing to 940 bytes. Prints the number
 * of hits. The keys are those of the trace "zipf" in lib/kv/state/eviction_rates_test.cc. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "expect.h"

enum { KEYS = 100000, REQUESTS = 1000000, BYTES = 940 };

static double sums[KEYS];
static uint64_t state = 1;

static uint64_t number(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static unsigned rank_at(double point)
{
	unsigned low = 0, high = KEYS;
	while (low < high) {
		const unsigned middle = (low + high) / 2;
		if (sums[middle] <= point) low = middle + 1;
		else high = middle;
	}
	return low;
}

int main(int argc, char **argv)
{
	void *store = NULL;
	char key[16], value[BYTES], *got;
	size_t length;
	double sum = 0;
	unsigned hits = 0;
	if (argc != 2) return 2;
	for (unsigned i = 0; i < KEYS; ++i) sums[i] = sum += pow(i + 1, -0.99);
	EXPECT(kv_open(argv[1], &store) == KV_OK);
	for (unsigned i = 0; i < REQUESTS; ++i) {
		const unsigned rank = rank_at((double)(number() >> 11) * 0x1p-53 * sum);
		const size_t key_length = (size_t)snprintf(key, sizeof key, "%u", rank);
		const int result = kv_getn(store, key, key_length, &got, &length);
		if (result == KV_MISSING) {
			memset(value, 'a' + (int)(rank % 26), sizeof value);
			EXPECT(kv_setn(store, key, key_length, value, sizeof value) == KV_OK);
			continue;
		}
		EXPECT(result == KV_OK && length == BYTES && got[0] == 'a' + (char)(rank % 26));
		kv_release(got);
		++hits;
	}
	printf("%u\n", hits);
	EXPECT(kv_close(store) == KV_OK);
	return 0;
}

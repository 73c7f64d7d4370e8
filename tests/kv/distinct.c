// SPDX-License-Identifier: Apache-2.0
/* distinct SERVER FIRST COUNT: sets COUNT keys to values of 64 bytes. The keys are the numbers from
 * FIRST on. */
#include <inttypes.h>
#include <string.h>

#include "expect.h"

int main(int argc, char **argv)
{
	void *store = NULL;
	char key[24], value[64];
	if (argc != 4) return 2;
	const uint64_t first = strtoull(argv[2], NULL, 10), count = strtoull(argv[3], NULL, 10);
	memset(value, 'v', sizeof value);
	EXPECT(kv_open(argv[1], &store) == KV_OK);
	for (uint64_t i = first; i < first + count; ++i) {
		const int length = snprintf(key, sizeof key, "%" PRIu64, i);
		EXPECT(kv_setn_async(store, key, (size_t)length, value, sizeof value) == KV_OK);
	}
	EXPECT(kv_close(store) == KV_OK);
	return 0;
}

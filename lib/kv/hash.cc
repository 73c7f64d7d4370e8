// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/hash.h"

// Compiles XXH3 into this file, so that no shared library is needed.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace verbena::kv {

std::uint64_t hash_of(const void* bytes, std::size_t size, std::uint64_t seed) {
	return XXH3_64bits_withSeed(bytes, size, seed);
}

}  // namespace verbena::kv

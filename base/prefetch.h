// SPDX-License-Identifier: Apache-2.0
// prefetch(): a hint that memory will be used soon. It never faults, whatever the address is, and
// affects nothing but time.
#pragma once

#include <cstddef>

namespace verbena {

inline constexpr std::size_t cache_line = 64;

// Prefetches the `bytes` from `at` on, for reading and writing. If `at` is not aligned to a cache
// line, the last line may be left out.
inline void prefetch(const void* at, std::size_t bytes = 1) {
	const auto* const first = static_cast<const std::byte*>(at);
	for (std::size_t i = 0; i < bytes; i += cache_line) __builtin_prefetch(first + i, 1);
}

}  // namespace verbena

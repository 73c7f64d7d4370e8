// Hints that memory will be wanted soon. They never fault, whatever the address, and change nothing but time.
#pragma once

#include <cstddef>

namespace verbena {

inline constexpr std::size_t cache_line = 64;

// The first `bytes` of what is at `at`, which will be read and written.
inline void prefetch(const void* at, std::size_t bytes = 1) {
	const auto* const first = static_cast<const std::byte*>(at);
	for (std::size_t i = 0; i < bytes; i += cache_line) __builtin_prefetch(first + i, 1);
}

}  // namespace verbena

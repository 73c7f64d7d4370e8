// The hash of keys that both ends must agree on, and the checksum of what is read one-sidedly: XXH3, 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace verbena::kv {

std::uint64_t hash_of(const void* bytes, std::size_t size, std::uint64_t seed = 0);
inline std::uint64_t hash_of(std::string_view text, std::uint64_t seed = 0) {
	return hash_of(text.data(), text.size(), seed);
}

}  // namespace verbena::kv

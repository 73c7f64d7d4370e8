// SPDX-License-Identifier: Apache-2.0
// XXH3-64: the hash of keys, on which both ends must agree, and the checksum of published values.
//
// Threads: any; pure functions.
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

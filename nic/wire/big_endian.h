// SPDX-License-Identifier: Apache-2.0
// Loads and stores of big-endian integers, the order of every field of a packet except the ICRC.
// Pointers need no alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace verbena::wire {

namespace detail {
template <class Integer> constexpr Integer big_endian(Integer value) {
	if constexpr (std::endian::native == std::endian::big || sizeof(Integer) == 1) return value;
	else return std::byteswap(value);
}
template <class Integer> Integer load(const std::byte* from) {
	Integer value;
	std::memcpy(&value, from, sizeof value);
	return big_endian(value);
}
template <class Integer> void store(std::byte* to, Integer value) {
	value = big_endian(value);
	std::memcpy(to, &value, sizeof value);
}
}  // namespace detail

inline std::uint8_t load_be8(const std::byte* from) { return std::to_integer<std::uint8_t>(*from); }
inline std::uint16_t load_be16(const std::byte* from) { return detail::load<std::uint16_t>(from); }
inline std::uint32_t load_be32(const std::byte* from) { return detail::load<std::uint32_t>(from); }
inline std::uint64_t load_be64(const std::byte* from) { return detail::load<std::uint64_t>(from); }

inline void store_be8(std::byte* to, std::uint8_t value) { *to = std::byte{value}; }
inline void store_be16(std::byte* to, std::uint16_t value) { detail::store(to, value); }
inline void store_be32(std::byte* to, std::uint32_t value) { detail::store(to, value); }
inline void store_be64(std::byte* to, std::uint64_t value) { detail::store(to, value); }

}  // namespace verbena::wire

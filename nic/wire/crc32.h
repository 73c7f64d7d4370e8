// SPDX-License-Identifier: Apache-2.0
// CRC-32 of IEEE 802.3, reflected: the polynomial of the ICRC. crc32() gives the same values as
// zlib's for the same arguments.
//
// The second half of this header is the same arithmetic on polynomials. Appending n bytes to two
// messages multiplies the difference of their checksums by x^(8n); icrc.h uses this.
//
// Threads: any. The first call picks the routine for this CPU: carry-less multiplication, or
//   tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::wire {

// Continues the checksum `crc` of the preceding bytes, 0 at the start.
std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes);
// The same of 8 bytes or more, as if all bits of `ones` were set in the first 8; the first byte has
// the lowest bits.
std::uint32_t crc32_with_ones(std::uint32_t crc, std::span<const std::byte> bytes, std::uint64_t ones);

// Arithmetic on CRCs as polynomials over GF(2), modulo the CRC's. Bit 31 is the coefficient of x^0.
namespace polynomial {

inline constexpr std::uint32_t modulus = 0xedb88320;  // without x^32
inline constexpr std::uint32_t one = 0x80000000;

// a * x, and a / x.
constexpr std::uint32_t times_x(std::uint32_t a) { return a >> 1 ^ (modulus & -(a & 1)); }
constexpr std::uint32_t over_x(std::uint32_t a) { return a >> 31 ? (a ^ modulus) << 1 | 1 : a << 1; }

constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) {
	std::uint32_t sum = 0;
	for (; a != 0; a <<= 1, b = times_x(b)) sum ^= b & -(a >> 31);
	return sum;
}

// x to the power of `exponent`.
constexpr std::uint32_t power(std::uint32_t exponent) {
	std::uint32_t result = one;
	for (std::uint32_t square = times_x(one); exponent != 0; exponent >>= 1, square = product(square, square))
		if (exponent & 1) result = product(result, square);
	return result;
}

}  // namespace polynomial
}  // namespace verbena::wire

// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/crc32.h"

#include <atomic>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/check.h"

namespace verbena::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "the tables are read by little-endian words");

// tables[k][b] is the remainder of byte b followed by k zero bytes.
constexpr auto tables = [] {
	std::array<std::array<std::uint32_t, 256>, 8> t{};
	for (std::uint32_t b = 0; b < 256; ++b) {
		t[0][b] = b;
		for (int bit = 0; bit < 8; ++bit) t[0][b] = polynomial::times_x(t[0][b]);
	}
	for (int k = 1; k < 8; ++k)
		for (int b = 0; b < 256; ++b) t[k][b] = t[k - 1][b] >> 8 ^ t[0][t[k - 1][b] & 0xff];
	return t;
}();

// The routines below work on the CRC register, which crc32() inverts before and after. `ones` is 0
// if there are less than 8 bytes.
std::uint32_t by_tables(std::uint32_t reg, const std::byte* p, std::size_t n, std::uint64_t ones) {
	for (; n >= 8; p += 8, n -= 8, ones = 0) {
		std::uint64_t word;
		std::memcpy(&word, p, 8);
		word = (word | ones) ^ reg;
		reg = 0;
		for (int i = 0; i < 8; ++i) reg ^= tables[7 - i][word >> 8 * i & 0xff];
	}
	for (; n != 0; ++p, --n) reg = reg >> 8 ^ tables[0][(reg ^ std::to_integer<std::uint32_t>(*p)) & 0xff];
	return reg;
}

#if defined(__x86_64__)

// Folding replaces 128 bits of the message by congruent 128 bits `distance` bits further on, until
// 16 bytes are left, which remainder() divides. In reflected order a product comes out one bit low,
// hence the shift. The two halves of the 128 bits are 64 bits apart, hence two constants.
constexpr std::uint64_t fold_low(unsigned distance) { return std::uint64_t{polynomial::power(distance + 32)} << 1; }
constexpr std::uint64_t fold_high(unsigned distance) { return std::uint64_t{polynomial::power(distance - 32)} << 1; }
static_assert(fold_low(512) == 0x154442bd4, "the constant that every published routine uses");

#define VERBENA_PCLMUL gnu::target("pclmul,sse4.1"), gnu::always_inline
#define VERBENA_VPCLMUL gnu::target("pclmul,sse4.1,avx512f,avx512dq,vpclmulqdq")

[[VERBENA_PCLMUL]] inline __m128i load(const std::byte* p) {
	return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

template <unsigned distance> [[VERBENA_PCLMUL]] inline __m128i fold(__m128i x, __m128i onto) {
	const __m128i k = _mm_set_epi64x(fold_high(distance), fold_low(distance));
	return _mm_xor_si128(onto, _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)));
}

// The remainder of 16 bytes: two folds leave 64 bits, and Barrett's reduction divides those by the
// polynomial. It multiplies by the quotient of x^64 and the polynomial instead of dividing.
[[VERBENA_PCLMUL]] inline std::uint32_t remainder(__m128i x) {
	constexpr std::uint64_t quotient = 0x1f7011641, divisor = std::uint64_t{polynomial::modulus} << 1 | 1;
	const __m128i low_words = _mm_setr_epi32(-1, 0, -1, 0);
	const __m128i barrett = _mm_set_epi64x(quotient, divisor);
	x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, _mm_cvtsi64_si128(fold_high(128)), 0x00));
	x = _mm_xor_si128(
		_mm_srli_si128(x, 4), _mm_clmulepi64_si128(_mm_and_si128(x, low_words), _mm_cvtsi64_si128(fold_low(32)), 0x00));
	const __m128i times = _mm_clmulepi64_si128(_mm_and_si128(x, low_words), barrett, 0x10);
	const __m128i multiple = _mm_clmulepi64_si128(_mm_and_si128(times, low_words), barrett, 0x00);
	return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(x, multiple), 1));
}

// Takes in the last 1 to 15 bytes, of which `end` is the end; 16 bytes before it can be read. The
// first `n` bytes of `x` move in front of a block that ends with the new bytes.
[[VERBENA_PCLMUL]] inline __m128i append_rest(__m128i x, const std::byte* end, std::size_t n) {
	// From `n` on these move a vector up by 16 - n bytes, from 16 + n on they move it down by n; a
	// byte with the high bit set leaves none.
	alignas(16) static constexpr std::array<std::uint8_t, 48> moves = [] {
		std::array<std::uint8_t, 48> m{};
		m.fill(0x80);
		for (std::uint8_t i = 0; i < 16; ++i) m[16 + i] = i;
		return m;
	}();
	const __m128i up = load(reinterpret_cast<const std::byte*>(&moves[n]));
	const __m128i down = load(reinterpret_cast<const std::byte*>(&moves[16 + n]));
	return fold<128>(_mm_shuffle_epi8(x, up), _mm_blendv_epi8(_mm_shuffle_epi8(x, down), load(end - 16), down));
}

// `x` stands for 16 bytes or more that end at `p`.
[[VERBENA_PCLMUL]] inline std::uint32_t finish(__m128i x, const std::byte* p, std::size_t n) {
	for (; n >= 16; p += 16, n -= 16) x = fold<128>(x, load(p));
	return remainder(n != 0 ? append_rest(x, p + n, n) : x);
}

[[VERBENA_PCLMUL]] inline std::uint32_t finish(
	__m128i x0, __m128i x1, __m128i x2, __m128i x3, const std::byte* p, std::size_t n) {
	for (; n >= 64; p += 64, n -= 64) {
		x0 = fold<512>(x0, load(p));
		x1 = fold<512>(x1, load(p + 16));
		x2 = fold<512>(x2, load(p + 32));
		x3 = fold<512>(x3, load(p + 48));
	}
	return finish(fold<128>(fold<128>(fold<128>(x0, x1), x2), x3), p, n);
}

[[gnu::target("pclmul,sse4.1")]] std::uint32_t by_pclmul(
	std::uint32_t reg, const std::byte* p, std::size_t n, std::uint64_t ones) {
	if (n < 16) return by_tables(reg, p, n, ones);
	const __m128i first = _mm_or_si128(load(p), _mm_cvtsi64_si128(static_cast<long long>(ones)));
	const __m128i x0 = _mm_xor_si128(first, _mm_cvtsi32_si128(static_cast<int>(reg)));
	if (n < 64) return finish(x0, p + 16, n - 16);
	return finish(x0, load(p + 16), load(p + 32), load(p + 48), p + 64, n - 64);
}

template <unsigned distance> [[VERBENA_VPCLMUL]] inline __m512i fold512(__m512i x, __m512i onto) {
	const long long high = fold_high(distance), low = fold_low(distance);
	const __m512i k = _mm512_set_epi64(high, low, high, low, high, low, high, low);
	return _mm512_ternarylogic_epi64(
		onto, _mm512_clmulepi64_epi128(x, k, 0x00), _mm512_clmulepi64_epi128(x, k, 0x11), 0x96);
}

[[VERBENA_VPCLMUL]] std::uint32_t by_vpclmul(std::uint32_t reg, const std::byte* p, std::size_t n, std::uint64_t ones) {
	if (n < 256) return by_pclmul(reg, p, n, ones);
	const __m512i first =
		_mm512_or_si512(_mm512_loadu_si512(p), _mm512_zextsi128_si512(_mm_cvtsi64_si128(static_cast<long long>(ones))));
	__m512i x0 = _mm512_xor_si512(first, _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(reg))));
	__m512i x1 = _mm512_loadu_si512(p + 64), x2 = _mm512_loadu_si512(p + 128), x3 = _mm512_loadu_si512(p + 192);
	for (p += 256, n -= 256; n >= 256; p += 256, n -= 256) {
		x0 = fold512<2048>(x0, _mm512_loadu_si512(p));
		x1 = fold512<2048>(x1, _mm512_loadu_si512(p + 64));
		x2 = fold512<2048>(x2, _mm512_loadu_si512(p + 128));
		x3 = fold512<2048>(x3, _mm512_loadu_si512(p + 192));
	}
	const __m512i x = fold512<512>(fold512<512>(fold512<512>(x0, x1), x2), x3);
	return finish(_mm512_extracti64x2_epi64(x, 0), _mm512_extracti64x2_epi64(x, 1), _mm512_extracti64x2_epi64(x, 2),
		_mm512_extracti64x2_epi64(x, 3), p, n);
}

#endif

using Routine = std::uint32_t (*)(std::uint32_t, const std::byte*, std::size_t, std::uint64_t);

Routine best() {
#if defined(__x86_64__)
	__builtin_cpu_init();
	const bool pclmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
	if (pclmul && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f") &&
		__builtin_cpu_supports("avx512dq"))
		return by_vpclmul;
	if (pclmul) return by_pclmul;
#endif
	return by_tables;
}

// The routine is chosen at the first call, because a preloaded library may be called before its
// static initializers have run.
std::uint32_t choose(std::uint32_t reg, const std::byte* p, std::size_t n, std::uint64_t ones);
constinit std::atomic<Routine> routine = choose;

std::uint32_t choose(std::uint32_t reg, const std::byte* p, std::size_t n, std::uint64_t ones) {
	routine.store(best(), std::memory_order_relaxed);
	return routine.load(std::memory_order_relaxed)(reg, p, n, ones);
}

}  // namespace

std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) {
	return ~routine.load(std::memory_order_relaxed)(~crc, bytes.data(), bytes.size(), 0);
}

std::uint32_t crc32_with_ones(std::uint32_t crc, std::span<const std::byte> bytes, std::uint64_t ones) {
	check(bytes.size() >= sizeof ones, "the ones are in bytes of the message");
	return ~routine.load(std::memory_order_relaxed)(~crc, bytes.data(), bytes.size(), ones);
}

}  // namespace verbena::wire

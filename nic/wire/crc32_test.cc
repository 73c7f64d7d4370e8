// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/crc32.h"

#include <gtest/gtest.h>
#include <string_view>
#include <vector>

namespace verbena::wire {
namespace {

// The definition, one bit at a time.
std::uint32_t by_bits(std::uint32_t crc, std::span<const std::byte> bytes) {
	crc = ~crc;
	for (const std::byte b : bytes) {
		crc ^= std::to_integer<std::uint32_t>(b);
		for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
	}
	return ~crc;
}

std::vector<std::byte> noise(std::size_t size) {
	std::vector<std::byte> bytes(size);
	std::uint32_t x = 1;
	for (std::byte& b : bytes) b = static_cast<std::byte>((x = x * 1664525 + 1013904223) >> 24);
	return bytes;
}

TEST(Crc32, HasTheCheckValueOfTheCatalogue) {
	EXPECT_EQ(crc32(0, std::as_bytes(std::span(std::string_view("123456789")))), 0xcbf43926);
}

TEST(Crc32, IsTheDefinitionAtEverySizeAndAlignment) {
	const auto bytes = noise(4300);
	for (std::size_t size = 0; size < 1200; ++size)
		for (const std::size_t offset : {0, 1, 8, 13}) {
			const auto some = std::span(bytes).subspan(offset, size);
			ASSERT_EQ(crc32(0x1234, some), by_bits(0x1234, some)) << size << " bytes at " << offset;
		}
	EXPECT_EQ(crc32(0, std::span(bytes).first(4096)), by_bits(0, std::span(bytes).first(4096)));
	EXPECT_EQ(crc32(0, bytes), by_bits(0, bytes));
}

TEST(Crc32, WithOnesIsThatOfBytesInWhichTheyAreSet) {
	constexpr std::uint64_t ones = 0x0102'0080'ff00'0040;
	const auto bytes = noise(1200);
	for (std::size_t size = 8; size < bytes.size(); ++size) {
		std::vector<std::byte> set(bytes.begin(), bytes.begin() + static_cast<long>(size));
		for (int i = 0; i < 8; ++i) set[static_cast<std::size_t>(i)] |= static_cast<std::byte>(ones >> 8 * i);
		ASSERT_EQ(crc32_with_ones(0x1234, std::span(bytes).first(size), ones), by_bits(0x1234, set)) << size;
	}
}

TEST(Crc32, ContinuesAcrossPieces) {
	const auto bytes = noise(1000);
	for (const std::size_t cut : {0, 1, 15, 16, 63, 64, 255, 256, 999})
		EXPECT_EQ(crc32(crc32(0, std::span(bytes).first(cut)), std::span(bytes).subspan(cut)), crc32(0, bytes));
}

TEST(Polynomial, DividingByXUndoesMultiplying) {
	for (std::uint32_t a = 1; a != 0; a <<= 1) {
		EXPECT_EQ(polynomial::over_x(polynomial::times_x(a)), a);
		EXPECT_EQ(polynomial::times_x(a), polynomial::product(a, polynomial::power(1)));
	}
}

TEST(Polynomial, AZeroByteMultipliesADifferenceByXToTheEighth) {
	auto one = noise(40), other = one;
	other[0] ^= std::byte{0x5a};
	const std::uint32_t before = crc32(0, one) ^ crc32(0, other);
	for (auto* message : {&one, &other}) message->resize(100);
	EXPECT_EQ(crc32(0, one) ^ crc32(0, other), polynomial::product(before, polynomial::power(8 * 60)));
}

}  // namespace
}  // namespace verbena::wire

// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/pattern.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::rcud {
namespace {

TEST(Pattern, WithoutASeedWritesOnlyTheStamps) {
	std::vector<std::byte> message(40, std::byte{0x77});
	Pattern().write(message.data(), message.size(), 5);
	for (std::size_t i = 8; i < 32; ++i) EXPECT_EQ(message[i], std::byte{0x77});
	EXPECT_EQ(load_stamp(message.data()), 5u);
	EXPECT_EQ(load_stamp(message.data() + 32), 5u);
}

TEST(Pattern, WithASeedEveryByteCountsAtEverySize) {
	const Pattern pattern(99);
	for (std::size_t bytes = 1; bytes <= 70; ++bytes) {
		std::vector<std::byte> message(bytes + 1, std::byte{0x77});
		pattern.write(message.data(), bytes, 5);
		EXPECT_EQ(message[bytes], std::byte{0x77}) << "written behind the end";
		EXPECT_TRUE(pattern.agrees(message.data(), bytes, 5));
		for (std::size_t i = 0; i < bytes; ++i)
			for (const int bit : {0, 7}) {
				message[i] ^= std::byte(1 << bit);
				EXPECT_FALSE(pattern.agrees(message.data(), bytes, 5)) << i << " of " << bytes;
				message[i] ^= std::byte(1 << bit);
			}
	}
}

TEST(Pattern, DiffersBySeedMessageAndOffset) {
	std::vector<std::byte> message(64);
	Pattern(99).write(message.data(), 64, 5);
	EXPECT_FALSE(Pattern(98).agrees(message.data(), 64, 5));
	EXPECT_FALSE(Pattern(99).agrees(message.data(), 64, 6));
	EXPECT_FALSE(Pattern().agrees(message.data(), 64, 5));
	for (std::size_t i = 8; i + 8 < 64; i += 8)
		for (std::size_t j = i + 8; j + 8 <= 64; j += 8)
			EXPECT_NE(load_stamp(message.data() + i), load_stamp(message.data() + j));
}

TEST(Pattern, ASpoiledMessageAgreesWithNoStamp) {
	for (const Pattern& pattern : {Pattern(), Pattern(99)})
		for (const std::size_t bytes : {8, 16, 40}) {
			std::vector<std::byte> message(bytes);
			pattern.write(message.data(), bytes, 5);
			pattern.spoil(message.data(), bytes);
			EXPECT_FALSE(pattern.agrees(message.data(), bytes, 5));
		}
}

}  // namespace
}  // namespace verbena::rcud

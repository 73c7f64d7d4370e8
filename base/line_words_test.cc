// SPDX-License-Identifier: Apache-2.0
#include "base/line_words.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace verbena {
namespace {

TEST(LineWords, NumbersAndWordsAreReadInTheirOrder) {
	LineWords words("7 seven the rest of it");
	std::uint32_t number = 0;
	std::string word;
	words.into(number);
	words.into(word);
	EXPECT_TRUE(words.good());
	EXPECT_EQ(number, 7u);
	EXPECT_EQ(word, "seven");
	EXPECT_EQ(words.rest(), "the rest of it");
}

TEST(LineWords, AMissingWordOrAWrongNumberIsNotGood) {
	for (const std::string_view line : {"", "x", "-1", "4294967296", "7x", " 7"}) {
		LineWords words(line);
		std::uint32_t number = 0;
		words.into(number);
		EXPECT_FALSE(words.good()) << line;
	}
}

TEST(LineWords, ControlCharactersDoNotReachATerminal) {
	LineWords words("a\033[2Jb");
	std::string word;
	words.into(word);
	EXPECT_EQ(word, "a?[2Jb");
}

TEST(LineWords, LinesAreTakenUntilThereIsNone) {
	std::string_view text = "one\n\nthree";
	EXPECT_EQ(take_line(text), "one");
	EXPECT_EQ(take_line(text), "");
	EXPECT_EQ(take_line(text), "three");
	EXPECT_TRUE(text.empty());
}

}  // namespace
}  // namespace verbena

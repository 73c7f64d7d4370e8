// SPDX-License-Identifier: Apache-2.0
#include "base/sizes.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

using Sizes = std::vector<std::uint64_t>;

TEST(Sizes, TakeBinaryUnitsInEitherCase) {
	EXPECT_EQ(parse_size("4096"), 4096u);
	EXPECT_EQ(parse_size("4K"), 4096u);
	EXPECT_EQ(parse_size("1m"), 1u << 20);
	EXPECT_EQ(parse_size("2G"), std::uint64_t{2} << 30);
}

TEST(Sizes, RefuseWhatIsNotASizeAndNameIt) {
	for (const char* text : {"", "K", "-1", "4KB", "4 K", "0x10", "99999999999999999999", "99999999999G"}) {
		const auto size = parse_size(text);
		ASSERT_FALSE(size) << text;
		EXPECT_NE(size.error().find("'" + std::string(text) + "'"), std::string::npos) << size.error();
	}
}

TEST(Sizes, ARangeDoubles) {
	EXPECT_EQ(parse_sizes("32:8192"), (Sizes{32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}));
}

TEST(Sizes, ARangeStopsBelowAnEndThatDoublingMisses) { EXPECT_EQ(parse_sizes("32:100"), (Sizes{32, 64})); }

TEST(Sizes, ListsAndRangesMix) { EXPECT_EQ(parse_sizes("8,1K:4K,100"), (Sizes{8, 1024, 2048, 4096, 100})); }

TEST(Sizes, RefuseEmptyItemsZeroAndBackwardRanges) {
	for (const char* text : {"", "1,,2", "0", "64:32", "32:", ":32", "1,"}) EXPECT_FALSE(parse_sizes(text)) << text;
}

TEST(Sizes, ARangeToTheLargestNumberEnds) {
	EXPECT_EQ(parse_sizes("9223372036854775808:18446744073709551615")->size(), 1u);
}

}  // namespace
}  // namespace verbena

// SPDX-License-Identifier: Apache-2.0
#include "lib/verbs/queue_pair.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace verbena::lib {
namespace {

// 10^5 numbers in 256 classes of their upper and of their lower bits: chi-square with 255 degrees
// of freedom has mean 255 and deviation 22.6, so 255 +- 8 deviations fails once in more than 10^12
// runs. Each of the 24 bits is set in half of the numbers, within 8 deviations.
TEST(RandomPsn, IsUniformOverAll24Bits) {
	constexpr int count = 100'000;
	std::array<int, 256> high{}, low{};
	std::array<int, 24> set{};
	for (int i = 0; i < count; ++i) {
		const std::uint32_t psn = random_psn();
		ASSERT_LE(psn, 0xffffffu);
		++high[psn >> 16];
		++low[psn & 0xff];
		for (int bit = 0; bit < 24; ++bit) set[bit] += psn >> bit & 1;
	}
	const auto chi_square = [](const std::array<int, 256>& classes) {
		double sum = 0;
		for (const int each : classes) sum += std::pow(each - count / 256.0, 2) / (count / 256.0);
		return sum;
	};
	EXPECT_NEAR(chi_square(high), 255, 8 * 22.6);
	EXPECT_NEAR(chi_square(low), 255, 8 * 22.6);
	for (const int each : set) EXPECT_NEAR(each, count / 2, 8 * std::sqrt(count) / 2);
}

}  // namespace
}  // namespace verbena::lib

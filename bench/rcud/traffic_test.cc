// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/traffic.h"

#include <gtest/gtest.h>

namespace verbena::rcud {
namespace {

TEST(UdCredit, IsCumulativeAndWrapsWithItsTwentyEightBits) {
	EXPECT_EQ(credit_count_of(make_credit_imm(3, 100), 3, 40), 100u);
	const std::uint64_t far = (std::uint64_t{5} << 28) - 2;
	EXPECT_EQ(credit_count_of(make_credit_imm(3, far + 10), 3, far), far + 10);
}

TEST(UdCredit, AnOldCreditAndOneOfAnotherRunAreIgnored) {
	EXPECT_EQ(credit_count_of(make_credit_imm(3, 100), 3, 140), 140u);
	EXPECT_EQ(credit_count_of(make_credit_imm(2, 100), 3, 40), 40u);
}

TEST(Delivery, RateIsTheCountedMessagesOverTheirTime) {
	EXPECT_DOUBLE_EQ((Delivery{.delivered = 104, .counted = 100, .counted_ns = 50'000}.mops()), 2.0);
	EXPECT_EQ(Delivery{}.mops(), 0.0);
}

}  // namespace
}  // namespace verbena::rcud

// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/retry_timer.h"

#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

TEST(AckTimeout, IsFourMicrosecondsTimesAPowerOfTwoAndZeroIsNoLimit) {
	EXPECT_EQ(ack_timeout(0), never);
	EXPECT_EQ(ack_timeout(1), 8'192u);
	EXPECT_EQ(ack_timeout(14), 67'108'864u);
	EXPECT_EQ(ack_timeout(31), Nanoseconds{4096} << 31);
}

// IBA 9.7.5.2.8: the values in milliseconds as the specification prints them.
TEST(RnrPause, IsTheTableOfTheSpecification) {
	constexpr double milliseconds[32] = {655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64,
		0.96, 1.28, 1.92, 2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84,
		245.76, 327.68, 491.52};
	for (int code = 0; code < 32; ++code)
		EXPECT_NEAR(static_cast<double>(rnr_pause(static_cast<std::uint8_t>(code))), milliseconds[code] * 1e6, 1)
			<< code;
}

}  // namespace
}  // namespace verbena::transport

// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/ieth.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>

#include "nic/wire/hex.h"

namespace verbena::wire {
namespace {

TEST(Ieth, IsTheKeyInBigEndian) {
	std::array<std::byte, ieth_size> written;
	write_ieth(written, {0x12345601});
	EXPECT_TRUE(std::ranges::equal(written, hex("12345601")));
	EXPECT_EQ(read_ieth(written), Rkey{0x12345601});
}

}  // namespace
}  // namespace verbena::wire

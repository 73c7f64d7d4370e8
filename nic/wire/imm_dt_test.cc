// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/imm_dt.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <gtest/gtest.h>

#include "nic/wire/hex.h"

namespace verbena::wire {
namespace {

TEST(ImmDt, IsTheMemoryOfTheApplicationsWord) {
	const auto literal = hex("00010203");
	std::uint32_t in_memory;
	std::memcpy(&in_memory, literal.data(), 4);
	std::array<std::byte, imm_dt_size> written;
	write_imm_dt(written, in_memory);
	EXPECT_TRUE(std::ranges::equal(written, literal));
	EXPECT_EQ(read_imm_dt(written), in_memory);
}

}  // namespace
}  // namespace verbena::wire

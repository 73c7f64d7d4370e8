// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/atomic_eth.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>

#include "nic/wire/hex.h"

namespace verbena::wire {
namespace {

const auto literal = hex("00007f00 00001000 00000042 00000000 00000007 ffffffff fffffffe");

TEST(AtomicEth, WritesTwentyEightBytesWithoutAGap) {
	std::array<std::byte, atomic_eth_size> written;
	write_atomic_eth(
		written, {.address = 0x7f0000001000, .rkey = {0x42}, .swap_or_add = 7, .compare = 0xfffffffffffffffe});
	EXPECT_TRUE(std::ranges::equal(written, literal));
}

TEST(AtomicEth, ReadsItsFourFields) {
	const AtomicEth atomic = read_atomic_eth(std::span(literal).first<atomic_eth_size>());
	EXPECT_EQ(atomic.address, 0x7f0000001000u);
	EXPECT_EQ(atomic.rkey, Rkey{0x42});
	EXPECT_EQ(atomic.swap_or_add, 7u);
	EXPECT_EQ(atomic.compare, 0xfffffffffffffffeu);
}

}  // namespace
}  // namespace verbena::wire

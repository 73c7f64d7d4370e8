// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/aeth.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>

#include "nic/wire/hex.h"

namespace verbena::wire {
namespace {

TEST(Aeth, IsTheSyndromeAndTheMessageNumberInOneWord) {
	std::array<std::byte, aeth_size> written;
	write_aeth(written, 0x1f << 24 | 0x000102);
	EXPECT_TRUE(std::ranges::equal(written, hex("1f000102")));
	EXPECT_EQ(read_aeth(written), 0x1f000102u);
}

TEST(AtomicAckEth, IsTheOriginalValueInBigEndian) {
	std::array<std::byte, atomic_ack_eth_size> written;
	write_atomic_ack_eth(written, 0x0102030405060708);
	EXPECT_TRUE(std::ranges::equal(written, hex("0102030405060708")));
	EXPECT_EQ(read_atomic_ack_eth(written), 0x0102030405060708u);
}

}  // namespace
}  // namespace verbena::wire

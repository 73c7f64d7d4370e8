// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/reth.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>

#include "nic/wire/hex.h"

namespace verbena::wire {
namespace {

const auto reth_literal = hex("00007f00 12345678 0000abcd 00100000");

TEST(Reth, WritesAddressKeyAndLength) {
	std::array<std::byte, reth_size> written;
	write_reth(written, {.address = 0x7f0012345678, .rkey = {0xabcd}, .dma_length = 1 << 20});
	EXPECT_TRUE(std::ranges::equal(written, reth_literal));
}

TEST(Reth, ReadsAddressKeyAndLength) {
	const Reth reth = read_reth(std::span(reth_literal).first<reth_size>());
	EXPECT_EQ(reth.address, 0x7f0012345678u);
	EXPECT_EQ(reth.rkey, Rkey{0xabcd});
	EXPECT_EQ(reth.dma_length, 1u << 20);
}

}  // namespace
}  // namespace verbena::wire

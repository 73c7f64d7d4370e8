// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/deth.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>

#include "nic/wire/hex.h"

namespace verbena::wire {
namespace {

TEST(Deth, WritesKeyAndSourceButNotTheLocalIndex) {
	std::array<std::byte, deth_size> written;
	write_deth(written, {.q_key = 0x11111111, .source = 0x003336 << 8 | 0x7f});
	EXPECT_TRUE(std::ranges::equal(written, hex("11111111 00003336")));
}

TEST(Deth, IgnoresTheReservedByte) {
	const auto literal = hex("80010000 ff000001");
	const Deth deth = read_deth(std::span(literal).first<deth_size>());
	EXPECT_EQ(deth.q_key, 0x80010000u);
	EXPECT_EQ(deth.source_qp(), Qpn{1});
	EXPECT_EQ(deth.address_index(), 0);
}

}  // namespace
}  // namespace verbena::wire

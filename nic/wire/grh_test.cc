// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/grh.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>

#include "nic/wire/hex.h"

namespace verbena::wire {
namespace {

const auto addresses = [](std::string_view source, std::string_view destination) {
	AddressPair pair{.traffic_class = 0xc2, .hop_limit = 64, .flow_label = 0x12345};
	std::ranges::copy(hex(source), reinterpret_cast<std::byte*>(pair.source));
	std::ranges::copy(hex(destination), reinterpret_cast<std::byte*>(pair.destination));
	return pair;
};

TEST(Grh, OfAnIpv4DatagramIsTwentyZerosAndItsHeaderWithAValidChecksum) {
	std::array<std::byte, grh_size> written;
	// The header of a packet captured from a ConnectX, except for the identification (718c), which
	// no socket reports.
	write_grh(written, addresses("00000000 00000000 0000ffff 0a001101", "00000000 00000000 0000ffff 0a001201"), 32);
	EXPECT_TRUE(std::ranges::equal(std::span(written).first(20), std::array<std::byte, 20>{}));
	EXPECT_TRUE(std::ranges::equal(std::span(written).last(20), hex("45c2003c 00004000 401102ee 0a001101 0a001201")));
}

TEST(Grh, OfAnIpv6DatagramIsItsHeader) {
	std::array<std::byte, grh_size> written;
	write_grh(written, addresses("fd0016d3 00000000 00000000 00000001", "fd0016d3 00000000 00000000 00000002"), 32);
	EXPECT_TRUE(std::ranges::equal(
		written, hex("6c212345 00281140 fd0016d3 00000000 00000000 00000001 fd0016d3 00000000 00000000 00000002")));
}

}  // namespace
}  // namespace verbena::wire

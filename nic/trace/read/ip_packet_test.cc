// SPDX-License-Identifier: Apache-2.0
#include "nic/trace/read/ip_packet.h"

#include <array>
#include <gtest/gtest.h>

namespace verbena::trace {
namespace {

wire::Gid mapped(std::uint8_t last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, last}; }

std::uint16_t at(const std::string& bytes, std::size_t i) {
	return static_cast<std::uint16_t>(
		static_cast<std::uint8_t>(bytes[i]) << 8 | static_cast<std::uint8_t>(bytes[i + 1]));
}

// The checksum over a header that contains its checksum is 0xffff (RFC 1071).
std::uint32_t folded_sum(std::string_view bytes) {
	std::uint32_t sum = 0;
	for (std::size_t i = 0; i < bytes.size(); ++i)
		sum += std::uint32_t{static_cast<std::uint8_t>(bytes[i])} << (i % 2 ? 0 : 8);
	while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

TEST(IpPacket, AnIpv4HeaderHasItsLengthsPortsAndAChecksumThatFits) {
	const std::array<std::byte, 16> payload{std::byte{0x11}, std::byte{0x22}};
	const std::string headers =
		ip_udp_headers({.source = mapped(1), .destination = mapped(2), .source_port = 0xc123}, payload);
	ASSERT_EQ(headers.size(), 28u);
	EXPECT_EQ(headers[0], 0x45);
	EXPECT_EQ(at(headers, 2), 44u);  // total length
	EXPECT_EQ(at(headers, 6), 0x4000u);  // DF
	EXPECT_EQ(headers[9], 17);
	EXPECT_EQ(folded_sum(std::string_view(headers).substr(0, 20)), 0xffffu);
	EXPECT_EQ(at(headers, 20), 0xc123u);
	EXPECT_EQ(at(headers, 22), wire::roce_port);
	EXPECT_EQ(at(headers, 24), 24u);  // UDP length
}

TEST(IpPacket, AnIpv6PacketHasAUdpChecksumOverItsPseudoHeader) {
	const std::array<std::byte, 3> payload{std::byte{1}, std::byte{2}, std::byte{3}};
	wire::Gid source{0xfe, 0x80}, destination{0xfe, 0x80};
	source[15] = 1;
	destination[15] = 2;
	const std::string headers =
		ip_udp_headers({.source = source, .destination = destination, .source_port = 9}, payload);
	ASSERT_EQ(headers.size(), 48u);
	EXPECT_EQ(at(headers, 4), 11u);  // payload length
	const std::string all = headers.substr(8) + std::string("\1\2\3", 3);
	// Addresses, UDP header and payload; protocol and length stand in the pseudo-header.
	const std::uint32_t sum = folded_sum(all) + 17 + 11;
	EXPECT_EQ((sum & 0xffff) + (sum >> 16), 0xffffu);
}

}  // namespace
}  // namespace verbena::trace

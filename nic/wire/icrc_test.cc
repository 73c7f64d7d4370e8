#include "nic/wire/icrc.h"

#include <cstring>
#include <gtest/gtest.h>

#include "nic/wire/crc32.h"
#include "nic/wire/hex.h"

namespace verbena::wire {
namespace {

Gid gid(std::string_view digits) {
	Gid result{};
	const auto bytes = hex(digits);
	std::memcpy(result.data(), bytes.data(), result.size());
	return result;
}

struct Capture {
	Flow flow;
	std::uint16_t ip_id;
	std::vector<std::byte> datagram;

	std::span<const std::byte> covered() const { return std::span(datagram).first(datagram.size() - icrc_size); }
	std::uint32_t stored() const {
		std::uint32_t value;
		std::memcpy(&value, &datagram[datagram.size() - icrc_size], icrc_size);
		return value;
	}
};

// Two published captures: a UC SEND, and a congestion notification from a ConnectX.
const Capture uc_send{
	.flow = {.source = gid("00000000 00000000 0000ffff c0a80007"),
		.destination = gid("00000000 00000000 0000ffff c0a80007"),
		.source_port = 49152},
	.ip_id = 1144,
	.datagram = hex("2460ffff 000000d3 00cf1710 4630818b e28935d9 0e9a9550 5401be88 5e500000 78f353f3"),
};
const Capture notification{
	.flow = {.source = gid("00000000 00000000 0000ffff 0a001101"),
		.destination = gid("00000000 00000000 0000ffff 0a001201"),
		.source_port = 0},
	.ip_id = 0x718c,
	.datagram = hex("8100ffff 40000118 00000000 00000000 00000000 00000000 00000000 82fd002a"),
};

TEST(Icrc, IsWhatACapturedUcPacketEndsWith) {
	EXPECT_EQ(icrc(uc_send.flow, uc_send.ip_id, {.headers = uc_send.covered()}), uc_send.stored());
}

TEST(Icrc, IsWhatACapturedNotificationEndsWith) {
	EXPECT_EQ(icrc(notification.flow, notification.ip_id, {.headers = notification.covered()}), notification.stored());
}

TEST(Icrc, DoesNotDependOnHowThePacketIsCut) {
	const auto covered = uc_send.covered();
	const std::uint32_t cut = icrc(uc_send.flow, uc_send.ip_id,
		{.headers = covered.first(12), .payload = covered.subspan(12, 18), .pad_count = 2});
	EXPECT_EQ(cut, uc_send.stored());
}

TEST(Icrc, OfAnIpv6PacketCoversItsHeaderWithTheChangingFieldsAsOnes) {
	const auto masked =
		hex("ffffffffffffffff 6fffffff 001c11ff fd000000 00000000 00000000 00000001 fd000000 00000000 00000000 00000002"
			"c00112b7 001cffff 0400ffff ff000011 80b945a2");
	const Flow flow{.source = gid("fd000000 00000000 00000000 00000001"),
		.destination = gid("fd000000 00000000 00000000 00000002"),
		.source_port = 0xc001,
		.traffic_class = 3,
		.hop_limit = 7};
	const auto headers = hex("0400ffff 00000011 80b945a2 01020304");
	auto with_payload = masked;
	with_payload.insert(with_payload.end(), headers.begin() + 12, headers.end());
	EXPECT_EQ(icrc(flow, 99, {.headers = std::span(headers)}), crc32(0, with_payload));
}

TEST(MatchingIpId, IsTheLikelyOneWhereItIsRight) {
	EXPECT_EQ(matching_ip_id(uc_send.flow, uc_send.datagram, 1144), 1144);
}

TEST(MatchingIpId, IsSolvedFromWhateverGuess) {
	for (const std::uint16_t guess : {0, 1, 63, 0x8000, 0xffff}) {
		EXPECT_EQ(matching_ip_id(uc_send.flow, uc_send.datagram, guess), 1144);
		EXPECT_EQ(matching_ip_id(notification.flow, notification.datagram, guess), 0x718c);
	}
}

TEST(MatchingIpId, IsFoundAtEveryPacketSize) {
	for (std::size_t size = 12; size < 4200; size += 4) {
		std::vector<std::byte> datagram(size, std::byte{0x3c});
		const std::uint32_t value = icrc(uc_send.flow, 0xbeef,
			{.headers = std::span(datagram).first(12), .payload = std::span(datagram).subspan(12)});
		datagram.resize(size + icrc_size);
		std::memcpy(&datagram[size], &value, icrc_size);
		ASSERT_EQ(matching_ip_id(uc_send.flow, datagram, 5), 0xbeef) << size;
	}
}

TEST(MatchingIpId, DoesNotExistForADamagedByte) {
	for (std::size_t at = 0; at < uc_send.datagram.size(); ++at) {
		if (at == 4) continue;  // congestion bits: not covered
		for (int bit = 0; bit < 8; ++bit) {
			auto damaged = uc_send.datagram;
			damaged[at] ^= static_cast<std::byte>(1 << bit);
			EXPECT_FALSE(matching_ip_id(uc_send.flow, damaged, 0)) << at;
		}
	}
}

TEST(MatchingIpId, IgnoresTheCongestionBits) {
	auto marked = uc_send.datagram;
	marked[4] ^= std::byte{0xc0};
	EXPECT_EQ(matching_ip_id(uc_send.flow, marked, 0), 1144);
}

TEST(MatchingIpId, OfIpv6IsNotSolvedFor) {
	Flow flow = uc_send.flow;
	flow.source = flow.destination = gid("fd000000 00000000 00000000 00000001");
	auto datagram = uc_send.datagram;
	EXPECT_FALSE(matching_ip_id(flow, datagram, 0));
	const std::uint32_t value = icrc(flow, 0, {.headers = std::span(datagram).first(32)});
	std::memcpy(&datagram[32], &value, icrc_size);
	EXPECT_EQ(matching_ip_id(flow, datagram, 17), 17);
}

}  // namespace
}  // namespace verbena::wire

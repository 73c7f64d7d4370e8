// SPDX-License-Identifier: Apache-2.0
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
	EXPECT_EQ(icrc(uc_send.flow, {.id = uc_send.ip_id}, {.headers = uc_send.covered()}), uc_send.stored());
}

TEST(Icrc, IsWhatACapturedNotificationEndsWith) {
	EXPECT_EQ(icrc(notification.flow, {.id = notification.ip_id}, {.headers = notification.covered()}),
		notification.stored());
}

TEST(Icrc, DoesNotDependOnHowThePacketIsCut) {
	const auto covered = uc_send.covered();
	const std::uint32_t cut = icrc(uc_send.flow, {.id = uc_send.ip_id},
		{.headers = covered.first(12), .payload = covered.subspan(12, 18), .pad_count = 2});
	EXPECT_EQ(cut, uc_send.stored());
}

TEST(Icrc, DoesNotDependOnHowPacketsOfAnySizeAreCut) {
	std::vector<std::byte> bytes(200);
	for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
	for (std::size_t size = 16; size <= bytes.size(); ++size) {
		const auto covered = std::span(bytes).first(size);
		const std::uint32_t short_headers =
			icrc(uc_send.flow, {.id = 1}, {.headers = covered.first(12), .payload = covered.subspan(12)});
		for (const std::size_t headers : {16, 28, 40, 64, 96}) {
			if (headers > size) break;
			const std::uint32_t cut =
				icrc(uc_send.flow, {.id = 1}, {.headers = covered.first(headers), .payload = covered.subspan(headers)});
			EXPECT_EQ(cut, short_headers) << headers << " of " << size << " bytes";
			const std::vector<std::byte> apart(covered.begin() + static_cast<long>(headers), covered.end());
			EXPECT_EQ(
				icrc(uc_send.flow, {.id = 1}, {.headers = covered.first(headers), .payload = apart}), short_headers)
				<< "in two places, " << headers << " of " << size << " bytes";
		}
	}
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
	EXPECT_EQ(icrc(flow, {.id = 99}, {.headers = std::span(headers)}), crc32(0, with_payload));
}

// The uc_send packet as a sender that leaves DF clear would have sent it: only its ICRC differs.
// Computed from the masked bytes with Python's zlib.crc32.
const Capture fragmentable{.flow = uc_send.flow,
	.ip_id = 1144,
	.datagram = hex("2460ffff 000000d3 00cf1710 4630818b e28935d9 0e9a9550 5401be88 5e500000 f89e399a")};

std::optional<IpFields> solved(const Flow& flow, std::span<const std::byte> datagram, IpFields likely) {
	return matching_ip_fields(IcrcPrefix(flow, datagram.size()), datagram, likely);
}

constexpr IpFields with_df(std::uint16_t id) { return {.id = id, .dont_fragment = true}; }
constexpr IpFields without_df(std::uint16_t id) { return {.id = id, .dont_fragment = false}; }

TEST(Icrc, CoversTheDfBit) {
	EXPECT_EQ(icrc(fragmentable.flow, without_df(1144), {.headers = fragmentable.covered()}), fragmentable.stored());
	EXPECT_NE(icrc(fragmentable.flow, with_df(1144), {.headers = fragmentable.covered()}), fragmentable.stored());
}

// The prefix of a flow and a size serves packets with any fields, and congestion bits.
TEST(Icrc, OfPacketsWithOnePrefixIsThatOfEachAlone) {
	const auto covered = uc_send.covered();
	const IcrcPrefix prefix(uc_send.flow, uc_send.datagram.size());
	for (const std::uint16_t id : {0, 1, 63, 255, 256, 1144, 0x8000, 0xffff})
		for (const bool df : {true, false}) {
			const IpFields fields{id, df};
			EXPECT_EQ(icrc(prefix, fields, {.headers = covered}), icrc(uc_send.flow, fields, {.headers = covered}));
		}
	EXPECT_EQ(icrc(prefix, without_df(1144), {.headers = fragmentable.covered()}), fragmentable.stored());
	auto marked = uc_send.datagram;
	marked[4] = std::byte{0xc0};
	EXPECT_EQ(icrc(prefix, with_df(1144), {.headers = std::span(marked).first(32)}), uc_send.stored());
}

TEST(MatchingIpFields, AreTheLikelyOnesWhereTheyAreRight) {
	EXPECT_EQ(solved(uc_send.flow, uc_send.datagram, with_df(1144)), with_df(1144));
	EXPECT_EQ(solved(fragmentable.flow, fragmentable.datagram, without_df(1144)), without_df(1144));
}

TEST(MatchingIpFields, AreSolvedFromWhateverGuess) {
	for (const std::uint16_t id : {0, 1, 63, 1144, 0x8000, 0xffff})
		for (const bool df : {true, false}) {
			const IpFields guess{id, df};
			EXPECT_EQ(solved(uc_send.flow, uc_send.datagram, guess), with_df(1144));
			EXPECT_EQ(solved(notification.flow, notification.datagram, guess), with_df(0x718c));
			EXPECT_EQ(solved(fragmentable.flow, fragmentable.datagram, guess), without_df(1144));
		}
}

TEST(MatchingIpFields, AreFoundAtEveryPacketSize) {
	for (std::size_t size = 12; size < 4200; size += 4) {
		const IpFields sent{0xbeef, size % 8 == 0};
		std::vector<std::byte> datagram(size, std::byte{0x3c});
		const std::uint32_t value = icrc(
			uc_send.flow, sent, {.headers = std::span(datagram).first(12), .payload = std::span(datagram).subspan(12)});
		datagram.resize(size + icrc_size);
		std::memcpy(&datagram[size], &value, icrc_size);
		ASSERT_EQ(solved(uc_send.flow, datagram, with_df(5)), sent) << size;
	}
}

TEST(MatchingIpFields, DoNotExistForADamagedByte) {
	for (const Capture& capture : {uc_send, fragmentable}) {
		for (std::size_t at = 0; at < capture.datagram.size(); ++at) {
			if (at == 4) continue;  // congestion bits: not covered
			for (int bit = 0; bit < 8; ++bit) {
				auto damaged = capture.datagram;
				damaged[at] ^= static_cast<std::byte>(1 << bit);
				EXPECT_FALSE(solved(capture.flow, damaged, with_df(0))) << at;
			}
		}
	}
}

TEST(MatchingIpFields, IgnoreTheCongestionBits) {
	auto marked = uc_send.datagram;
	marked[4] ^= std::byte{0xc0};
	EXPECT_EQ(solved(uc_send.flow, marked, with_df(0)), with_df(1144));
}

TEST(MatchingIpFields, OfIpv6AreNotSolvedFor) {
	Flow flow = uc_send.flow;
	flow.source = flow.destination = gid("fd000000 00000000 00000000 00000001");
	auto datagram = uc_send.datagram;
	EXPECT_FALSE(solved(flow, datagram, with_df(0)));
	const std::uint32_t value = icrc(flow, {}, {.headers = std::span(datagram).first(32)});
	std::memcpy(&datagram[32], &value, icrc_size);
	EXPECT_EQ(solved(flow, datagram, with_df(17)), with_df(17));
}

}  // namespace
}  // namespace verbena::wire

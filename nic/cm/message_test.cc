// SPDX-License-Identifier: Apache-2.0
#include "nic/cm/message.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace verbena::cm {
namespace {

wire::Gid ipv4(std::uint8_t last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 99, 0, last}; }
wire::Gid ipv6(std::uint8_t last) { return {0xfd, 0x93, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, last}; }

template <class Data> Data data(std::uint8_t first) {
	std::array<std::byte, Data::capacity> bytes;
	for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(first + i);
	return Data(bytes);
}

Req full_req() {
	return {.local = {0xa1a2a3a4},
		.service = service_of(port_space::tcp, 7208),
		.ca_guid = 0xb1b2b3b4b5b6b7b8,
		.q_key = 0xc1c2c3c4,
		.qpn = {0xd1d2d3},
		.responder_resources = 16,
		.initiator_depth = 8,
		.transport = Transport::uc,
		.flow_control = false,
		.starting_psn = {0xe1e2e3},
		.remote_response_timeout = 20,
		.local_response_timeout = 19,
		.retry_count = 5,
		.rnr_retry_count = 6,
		.p_key = 0xffff,
		.path_mtu = 3,
		.max_cm_retries = 15,
		.srq = true,
		.local_gid = ipv4(1),
		.remote_gid = ipv4(2),
		.flow_label = 0xf1f2f,
		.traffic_class = 0x68,
		.hop_limit = 63,
		.service_level = 3,
		.ack_timeout = 17,
		.addresses = {ipv4(1), ipv4(2), 40'000},
		.data = data<PrivateData<56>>(7)};
}

template <class M> void expect_round_trip(const M& message) {
	const auto read = read_message(write_message({77, message}));
	ASSERT_TRUE(read.has_value());
	EXPECT_EQ(read->transaction, 77u);
	ASSERT_TRUE(std::holds_alternative<M>(read->message));
	EXPECT_EQ(std::get<M>(read->message), message);
}

TEST(Message, EveryMessageReadsBackAsWritten) {
	expect_round_trip(full_req());
	expect_round_trip(Mra{{1}, {2}, 1, 24, data<PrivateData<222>>(1)});
	expect_round_trip(Rej{{1}, {2}, 1, reject_reason::timeout, 0x1112131415161718, data<PrivateData<148>>(2)});
	expect_round_trip(
		Rep{{1}, {2}, 3, {4}, {5}, 6, 7, 8, false, 3, true, 0x0102030405060708, data<PrivateData<196>>(3)});
	expect_round_trip(Rtu{{1}, {2}, data<PrivateData<224>>(4)});
	expect_round_trip(Dreq{{1}, {2}, {3}, data<PrivateData<220>>(5)});
	expect_round_trip(Drep{{1}, {2}, data<PrivateData<224>>(6)});
	expect_round_trip(
		SidrReq{{1}, 0xffff, service_of(port_space::udp, 7174), {ipv6(1), ipv6(2), 9}, data<PrivateData<180>>(7)});
	expect_round_trip(
		SidrRep{{1}, sidr_status::success, {2}, service_of(port_space::udp, 1), 0x01234567, data<PrivateData<136>>(8)});
}

// IBA 12.6; the kernel's ibta_vol1_c12.h gives the same offsets.
TEST(Message, FieldsOfAReqLieWhereTheSpecificationSays) {
	const wire::Mad mad = write_message({0x1122334455667788, full_req()});
	const auto expect_at = [&](std::size_t offset, std::initializer_list<std::uint8_t> bytes) {
		for (const std::uint8_t byte : bytes) {
			EXPECT_EQ(wire::load_be8(&mad[offset]), byte) << "byte " << offset;
			++offset;
		}
	};
	expect_at(8, {0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0x10});
	expect_at(24, {0xa1, 0xa2, 0xa3, 0xa4});
	expect_at(24 + 8, {0, 0, 0, 0, 0x01, 0x06, 0x1c, 0x28});
	expect_at(24 + 16, {0xb1, 0xb2});
	expect_at(24 + 28, {0xc1, 0xc2, 0xc3, 0xc4, 0xd1, 0xd2, 0xd3, 16});
	expect_at(24 + 39, {8});
	expect_at(24 + 43, {20 << 3 | 1 << 1, 0xe1, 0xe2, 0xe3, 19 << 3 | 5, 0xff, 0xff, 3 << 4 | 6, 15 << 4 | 1 << 3});
	expect_at(24 + 66, {0xff, 0xff, 10, 99, 0, 1});
	expect_at(24 + 88, {0xf1, 0xf2, 0xf0, 0, 0x68, 63, 3 << 4, 17 << 3});
	expect_at(24 + 140, {0, 0x40, 0x9c, 0x40});
	expect_at(24 + 140 + 4 + 10, {0, 0, 10, 99, 0, 1});
	expect_at(24 + 140 + 20 + 12, {10, 99, 0, 2});
	expect_at(24 + 176, {7, 8, 9});
}

TEST(Message, AMessageOfAnotherClassOrAttributeIsRefused) {
	wire::Mad mad = write_message({1, Rtu{}});
	mad[1] = std::byte{0x03};
	EXPECT_EQ(read_message(mad).error(), Malformed::other_class);
	mad[1] = std::byte{0x07};
	mad[3] = std::byte{0x81};
	EXPECT_EQ(read_message(mad).error(), Malformed::other_class);
	mad[3] = std::byte{0x03};
	mad[17] = std::byte{0x77};
	EXPECT_EQ(read_message(mad).error(), Malformed::unknown_attribute);
}

TEST(Message, AReqWithAFieldOutOfRangeIsRefused) {
	Req req = full_req();
	req.path_mtu = 6;
	EXPECT_EQ(read_message(write_message({1, req})).error(), Malformed::bad_field);
	req = full_req();
	req.transport = static_cast<Transport>(3);
	EXPECT_EQ(read_message(write_message({1, req})).error(), Malformed::bad_field);
	wire::Mad mad = write_message({1, full_req()});
	mad[24 + 141] = std::byte{0x50};  // neither IPv4 nor IPv6
	EXPECT_EQ(read_message(mad).error(), Malformed::bad_field);
}

TEST(Message, RandomBytesThatParseReadBackAsTheSameMessage) {
	Random random(1);
	for (int i = 0; i < 20'000; ++i) {
		wire::Mad mad;
		for (std::byte& byte : mad) byte = std::byte(random.below(256));
		if (random.chance(0.9))
			wire::write_mad_header(mad, {.attribute_id = static_cast<std::uint16_t>(0x0f + random.below(12))});
		if (const auto read = read_message(mad)) {
			const auto again = read_message(write_message(*read));
			ASSERT_TRUE(again.has_value());
			EXPECT_EQ(again->message, read->message);
		}
	}
}

TEST(Message, FindsItsAddresseeByServiceOrConnection) {
	EXPECT_EQ(addressee_of(full_req()).service, service_of(port_space::tcp, 7208));
	EXPECT_FALSE(addressee_of(Rep{.remote = {5}}).service);
	EXPECT_EQ(addressee_of(Rep{.remote = {5}}).connection, CommId{5});
	EXPECT_EQ(addressee_of(SidrRep{.request = {6}}).connection, CommId{6});
}

}  // namespace
}  // namespace verbena::cm

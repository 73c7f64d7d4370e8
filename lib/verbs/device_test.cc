// SPDX-License-Identifier: Apache-2.0
#include "lib/verbs/device.h"

#include <gtest/gtest.h>

namespace verbena::lib {
namespace {

GidEntry gid(std::uint32_t index, const char* text, GidType type = GidType::roce_v2) {
	return {.index = index, .gid = *parse_gid(text), .type = type};
}

DeviceInfo device(const char* name, bool software, std::vector<GidEntry> gids, ibv_port_state state = IBV_PORT_ACTIVE) {
	return {.name = name,
		.software = software,
		.ports = {{.number = 1, .state = state, .active_mtu_bytes = 1024, .gids = std::move(gids)}}};
}

const std::vector<DeviceInfo> software_host{
	device("vb_eth0", true, {gid(0, "fe80::1"), gid(1, "::ffff:10.0.0.1")}),
	device("vb_lo", true, {gid(0, "::ffff:127.0.0.1"), gid(1, "::1")}),
};

TEST(DeviceChoice, BetweenHostsAnIpv4AddressBeatsLinkLocalAndLoopback) {
	const auto choice = choose(software_host, {});
	ASSERT_TRUE(choice);
	EXPECT_EQ(choice->device, "vb_eth0");
	EXPECT_EQ(choice->gid_index, 1u);
	EXPECT_NE(choice->why.find("IPv4"), std::string::npos);
}

TEST(DeviceChoice, TwoProcessesOfOneHostUseTheLoopbackDevice) {
	const auto choice = choose(software_host, {.both_ends_on_this_host = true});
	ASSERT_TRUE(choice);
	EXPECT_EQ(choice->device, "vb_lo");
	EXPECT_EQ(choice->gid_index, 0u);
}

TEST(DeviceChoice, ThePeersFamilyIsAMustAndItsKindAPreference) {
	const auto to = [](const char* peer, const char* name = "") {
		return choose(software_host, {.device = name, .peer = *parse_gid(peer)});
	};
	EXPECT_EQ(to("::ffff:10.0.0.9")->gid_index, 1u);
	EXPECT_EQ(to("fe80::9")->gid_index, 0u);
	EXPECT_EQ(to("::ffff:127.0.0.1")->device, "vb_lo");
	EXPECT_EQ(to("2001:db8::1")->gid_index, 0u) << "the only IPv6 address of the first device";
	EXPECT_EQ(to("::ffff:10.0.0.9", "vb_lo")->gid_index, 0u);
	EXPECT_EQ(
		choose(std::vector{device("vb_lo", true, {gid(0, "::ffff:127.0.0.1")})}, {.peer = *parse_gid("2001:db8::1")})
			.error(),
		"no IPv6 GID on any device, as the peer's 2001:0db8:0000:0000:0000:0000:0000:0001 needs "
		"('verbena devices' shows them)");
}

TEST(DeviceChoice, RoceV2BeatsV1AtTheSameAddress) {
	const std::vector devices{
		device("mlx5_0", false, {gid(2, "::ffff:10.0.0.1", GidType::roce_v1), gid(3, "::ffff:10.0.0.1")})};
	EXPECT_EQ(choose(devices, {})->gid_index, 3u);
}

TEST(DeviceChoice, HardwareBeatsSoftwareAtAnEqualAddress) {
	const std::vector devices{
		device("vb_eth0", true, {gid(0, "::ffff:10.0.0.1")}), device("mlx5_0", false, {gid(0, "::ffff:10.0.0.2")})};
	EXPECT_EQ(choose(devices, {})->device, "mlx5_0");
}

TEST(DeviceChoice, ANameAndAnIndexAreObeyed) {
	const auto choice = choose(software_host, {.device = "vb_eth0", .gid_index = 0, .both_ends_on_this_host = true});
	ASSERT_TRUE(choice);
	EXPECT_EQ(choice->device, "vb_eth0");
	EXPECT_EQ(choice->gid_index, 0u);
}

TEST(DeviceChoice, AMistakeIsNamedWithTheWayOut) {
	EXPECT_NE(choose(software_host, {.device = "mlx9"}).error().find("vb_eth0, vb_lo"), std::string::npos);
	EXPECT_NE(choose(software_host, {.gid_index = 77}).error().find("77"), std::string::npos);
	EXPECT_NE(choose({}, {}).error().find("verbena run"), std::string::npos);
	const std::vector down{device("mlx5_0", false, {gid(0, "::ffff:10.0.0.1")}, IBV_PORT_DOWN)};
	EXPECT_NE(choose(down, {}).error().find("ACTIVE"), std::string::npos);
}

// performance_test called rxe0 hardware. tests/interop has the kernel's devices.
TEST(DeviceKind, OursAreSoftwareAndThoseThatTheKernelDoesNotListAreNot) {
	EXPECT_TRUE(is_software("vb_lo"));
	EXPECT_FALSE(is_software("mlx9_0"));
}

TEST(DeviceRate, IsLanesTimesSpeed) {
	ibv_port_attr port{};
	port.active_width = 2;
	port.active_speed = 32;
	EXPECT_EQ(rate_text(port), "100 Gb/s");
	port.active_width = 1;
	port.active_speed = 1;
	EXPECT_EQ(rate_text(port), "2.5 Gb/s");
	port.active_width = 0;
	EXPECT_EQ(rate_text(port), "");
}

}  // namespace
}  // namespace verbena::lib

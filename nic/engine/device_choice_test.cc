// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/device_choice.h"

#include <gtest/gtest.h>

namespace verbena::engine {
namespace {

using Names = std::vector<std::string>;

const std::vector<DeviceCandidate> host{
	{"vb_eth0"}, {"vb_eth1"}, {.name = "vb_sit0", .is_usual = false}, {.name = "vb_lo", .is_loopback = true}};

Names listed(std::string_view wanted, const std::vector<DeviceCandidate>& candidates = host) {
	Names names;
	for (const std::size_t position : choose_devices(wanted, candidates)) names.push_back(candidates[position].name);
	return names;
}

TEST(DeviceChoice, WithoutAWishIsAllButTheLoopback) {
	EXPECT_EQ(listed(""), (Names{"vb_eth0", "vb_eth1"}));
	EXPECT_EQ(listed(" , "), (Names{"vb_eth0", "vb_eth1"}));
}

TEST(DeviceChoice, HasTheLoopbackWhereNoOtherDeviceWorks) {
	EXPECT_EQ(listed("", {{.name = "vb_lo", .is_loopback = true}}), Names{"vb_lo"});
	EXPECT_EQ(listed("", {{.name = "vb_eth0", .works = false}, {.name = "vb_lo", .is_loopback = true}}),
		(Names{"vb_eth0", "vb_lo"}));
	EXPECT_EQ(listed("-vb_eth0,-vb_eth1"), Names{"vb_lo"});
}

TEST(DeviceChoice, ListsTheNamedDevicesInTheirOrder) {
	EXPECT_EQ(listed("vb_lo"), Names{"vb_lo"});
	EXPECT_EQ(listed("vb_eth1, vb_lo ,vb_eth0"), (Names{"vb_eth1", "vb_lo", "vb_eth0"}));
	EXPECT_EQ(listed("vb_eth1,vb_eth1"), Names{"vb_eth1"});
	EXPECT_EQ(listed("vb_sit0"), Names{"vb_sit0"});
}

TEST(DeviceChoice, LeavesOutTheDevicesWithAMinus) {
	EXPECT_EQ(listed("-vb_eth0"), Names{"vb_eth1"});
	EXPECT_EQ(listed("vb_eth0,vb_eth1,-vb_eth0"), Names{"vb_eth1"});
	EXPECT_EQ(listed("-vb_lo", {{.name = "vb_lo", .is_loopback = true}}), Names{});
}

TEST(DeviceChoice, AddsTheDevicesWithAPlusAtTheEnd) {
	EXPECT_EQ(listed("+vb_lo"), (Names{"vb_eth0", "vb_eth1", "vb_lo"}));
	EXPECT_EQ(listed("+vb_lo,-vb_eth0"), (Names{"vb_eth1", "vb_lo"}));
	EXPECT_EQ(listed("+vb_eth0"), (Names{"vb_eth0", "vb_eth1"}));
}

TEST(DeviceChoice, IgnoresNamesWithoutADevice) {
	EXPECT_EQ(listed("vb_nowhere"), Names{});
	EXPECT_EQ(listed("vb_nowhere,vb_eth1"), Names{"vb_eth1"});
	EXPECT_EQ(listed("-vb_nowhere"), (Names{"vb_eth0", "vb_eth1"}));
	EXPECT_EQ(listed("eth0"), Names{});
}

TEST(DeviceChoice, ReportsNamesWithoutADevice) {
	EXPECT_EQ(unknown_devices("vb_nowhere,vb_eth0,-vb_eth7,+eth0", host), (Names{"vb_nowhere", "eth0", "vb_eth7"}));
	EXPECT_EQ(unknown_devices("", host), Names{});
}

}  // namespace
}  // namespace verbena::engine

// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/render.h"

#include <gtest/gtest.h>

namespace verbena::presence {
namespace {

DeviceFacts example() {
	DeviceFacts device{.name = "vb_eth0",
		.number = 3,
		.interface = "eth0",
		.interface_index = 3,
		.node_guid = 0x020255fffe000001,
		.sys_image_guid = 0x020255fffe000001,
		.firmware = "0.1.0",
		.counters = {"hw_counters/rcvd_rnr_err"}};
	device.port = {.state = 4,
		.phys_state = 5,
		.active_width = 2,
		.active_speed = 32,
		.port_cap_flags = 0x10000,
		.gid_table_length = 4,
		.gids = {{.index = 0,
			.gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 2, 0x55, 0xff, 0xfe, 0, 0, 1},
			.type = "RoCE v2",
			.interface = "eth0"}},
		.pkeys = {0xffff}};
	return device;
}

std::string content(const Tree& tree, const std::string& path) {
	const Place place = tree.walk(path, true);
	return place.entry ? place.entry->text : "(none)";
}

TEST(Render, PortIsWrittenAsTheKernelDoes) {
	const Tree tree = render({{example()}}, {});
	const std::string port = "/sys/class/infiniband/vb_eth0/ports/1/";
	EXPECT_EQ(content(tree, port + "state"), "4: ACTIVE\n");
	EXPECT_EQ(content(tree, port + "phys_state"), "5: LinkUp\n");
	EXPECT_EQ(content(tree, port + "rate"), "100 Gb/sec (4X EDR)\n");
	EXPECT_EQ(content(tree, port + "link_layer"), "Ethernet\n");
	EXPECT_EQ(content(tree, port + "lid"), "0x0\n");
	EXPECT_EQ(content(tree, port + "cap_mask"), "0x00010000\n");
	EXPECT_EQ(content(tree, port + "pkeys/0"), "0xffff\n");
}

TEST(Render, DeviceIsWrittenAsTheKernelDoes) {
	const Tree tree = render({{example()}}, {});
	EXPECT_EQ(content(tree, "/sys/class/infiniband/vb_eth0/node_type"), "1: CA\n");
	EXPECT_EQ(content(tree, "/sys/class/infiniband/vb_eth0/node_guid"), "0202:55ff:fe00:0001\n");
	EXPECT_EQ(content(tree, "/sys/class/infiniband/vb_eth0/fw_ver"), "0.1.0\n");
	EXPECT_EQ(content(tree, "/sys/class/infiniband_verbs/uverbs3/ibdev"), "vb_eth0\n");
	EXPECT_EQ(content(tree, "/sys/class/infiniband_verbs/uverbs3/dev"), "231:195\n");
	EXPECT_EQ(content(tree, "/sys/class/infiniband_verbs/abi_version"), "6\n");
	EXPECT_EQ(tree.find("/dev/infiniband/uverbs3")->kind, Kind::device);
}

TEST(Render, InterfaceIsBelowDeviceAndBelowTheVerbsDevice) {
	const Tree tree = render({{example()}}, {});
	EXPECT_EQ(tree.walk("/sys/class/infiniband/vb_eth0/device/net/eth0", true).path, "/sys/class/net/eth0");
	EXPECT_EQ(tree.walk("/sys/class/infiniband_verbs/uverbs3/device/net/eth0", true).path, "/sys/class/net/eth0");
}

TEST(Render, EachIndexOfTheGidTableHasItsFiles) {
	const Tree tree = render({{example()}}, {});
	const std::string port = "/sys/devices/virtual/infiniband/vb_eth0/ports/1/";
	EXPECT_EQ(content(tree, port + "gids/0"), "fe80:0000:0000:0000:0202:55ff:fe00:0001\n");
	EXPECT_EQ(content(tree, port + "gids/3"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
	EXPECT_EQ(tree.find(port + "gids/4"), nullptr);
	EXPECT_EQ(content(tree, port + "gid_attrs/ndevs/0"), "eth0\n");
	EXPECT_EQ(content(tree, port + "gid_attrs/types/0"), "RoCE v2\n");
	EXPECT_EQ(tree.find(port + "gid_attrs/types/3")->kind, Kind::unreadable);
}

TEST(Render, CounterNamesItsDevice) {
	const Tree tree = render({{example()}}, {});
	const Entry* counter = tree.find("/sys/devices/virtual/infiniband/vb_eth0/ports/1/hw_counters/rcvd_rnr_err");
	ASSERT_NE(counter, nullptr);
	EXPECT_EQ(*counter, (Entry{Kind::live, "vb_eth0/hw_counters/rcvd_rnr_err"}));
}

TEST(Render, EntriesOfTheSystemStayBesideOurs) {
	const std::vector<SystemEntry> system = {"/sys/class/infiniband/mlx5_0", "/sys/class/infiniband_verbs/abi_version"};
	const Tree tree = render({{example()}}, system);
	EXPECT_EQ(tree.find("/sys/class/infiniband/mlx5_0")->kind, Kind::system);
	EXPECT_EQ(tree.find("/sys/class/infiniband_verbs/abi_version")->kind, Kind::system);
	EXPECT_EQ(tree.find("/sys/class/infiniband/vb_eth0")->kind, Kind::link);
}

TEST(Render, RateHasLanesAndSpeed) {
	EXPECT_EQ(rate_text(1, 1), "2.5 Gb/sec (1X SDR)");
	EXPECT_EQ(rate_text(2, 16), "56 Gb/sec (4X FDR)");
	EXPECT_EQ(rate_text(2, 128), "400 Gb/sec (4X NDR)");
	EXPECT_EQ(rate_text(16, 64), "100 Gb/sec (2X HDR)");
}

}  // namespace
}  // namespace verbena::presence

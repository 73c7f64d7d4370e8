// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/interfaces.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>

#include <algorithm>
#include <set>

namespace verbena::engine {
namespace {

// /proc/net/route of a machine with two uplinks, and one without IPv4.
constexpr std::string_view two_uplinks =
	"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	"wlan0\t00000000\t0102A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
	"eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"
	"eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n";
constexpr std::string_view no_ipv4 =
	"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
constexpr std::string_view ipv6_routes =
	"fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 "
	"00000001 00000000 "
	"00000001     eth2\n"
	"00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 "
	"00000002 00000000 "
	"00000003     eth2\n"
	"00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff "
	"00000001 00000000 "
	"00200200       lo\n";

TEST(DefaultRoute, IsTheOneWithTheLowestMetric) { EXPECT_EQ(default_route(two_uplinks, ipv6_routes), "eth0"); }
TEST(DefaultRoute, IsIpv6sWhereIpv4HasNone) { EXPECT_EQ(default_route(no_ipv4, ipv6_routes), "eth2"); }
TEST(DefaultRoute, IsEmptyWithoutRoutes) {
	EXPECT_EQ(default_route(no_ipv4, ""), "");
	EXPECT_EQ(default_route("", ""), "");
	EXPECT_EQ(default_route("titles\ngarbage", "more garbage"), "");
}
TEST(DefaultRoute, IsNeverTheUnreachableEntryOfLo) {
	EXPECT_EQ(default_route("", ipv6_routes.substr(ipv6_routes.rfind("00000000000000000000000000000000 00 0000"))), "");
}
TEST(DefaultRoute, IsNotAHalfRoute) {
	// 0.0.0.0/1, as VPNs install it: destination zero, but not the default.
	EXPECT_EQ(default_route("titles\ntun0\t00000000\t0100000A\t0003\t0\t0\t0\t00000080\t0\t0\t0\n", ""), "");
}

TEST(ActiveMtu, LeavesRoomForTheHeaders) {
	EXPECT_EQ(active_mtu(1500), 1024u);
	EXPECT_EQ(active_mtu(9000), 4096u);
	EXPECT_EQ(active_mtu(65536), 4096u);
	EXPECT_EQ(active_mtu(4096 + 80), 4096u);
	EXPECT_EQ(active_mtu(4096 + 79), 2048u);
	EXPECT_EQ(active_mtu(1280), 1024u);
	EXPECT_EQ(active_mtu(68), 256u);
	EXPECT_EQ(active_mtu(0), 256u);
}

TEST(ActiveMtu, IsCountedFromOneInTheAbi) {
	EXPECT_EQ(active_mtu_code(0), 1);
	EXPECT_EQ(active_mtu_code(1500), 3);
	EXPECT_EQ(active_mtu_code(65536), 5);
}

TEST(DeviceName, IsTheInterfacesWithAPrefixAndFitsTheAbi) {
	EXPECT_EQ(device_name("eth0"), "vb_eth0");
	EXPECT_EQ(device_name(std::string(100, 'x')).size(), 63u);
}

TEST(Guid, OfAMacIsItsEui64) { EXPECT_EQ(guid_of(Mac{0x02, 0xfc, 0x00, 0x00, 0x00, 0x01}), 0x00fc'00ff'fe00'0001u); }

TEST(Guid, WithoutAMacDependsOnNameAndNamespaceAlone) {
	EXPECT_EQ(guid_of("lo", 1), guid_of("lo", 1));
	EXPECT_NE(guid_of("lo", 1), guid_of("lo", 2));
	EXPECT_NE(guid_of("lo", 1), guid_of("tun0", 1));
	EXPECT_NE(guid_of("", 0), 0u);
	EXPECT_EQ(guid_of("lo", 1) >> 57 & 1, 0u) << "locally administered";
}

wire::Gid parsed_gid(const char* address) {
	wire::Gid bytes;
	EXPECT_EQ(inet_pton(AF_INET6, address, bytes.data()), 1);
	return bytes;
}

// --- This machine's own ---

TEST(IsActive, NeedsTheAdministratorAndACarrier) {
	EXPECT_TRUE(is_active(IFF_UP | IFF_RUNNING));
	EXPECT_TRUE(is_active(IFF_UP | 1 << 16)) << "IFF_LOWER_UP";
	EXPECT_FALSE(is_active(IFF_UP | IFF_BROADCAST));
	EXPECT_FALSE(is_active(IFF_RUNNING));
}

TEST(ListInterfaces, GivesEachWithWhatADeviceNeeds) {
	const auto all = list_interfaces().value();
	std::set<std::uint64_t> guids;
	std::set<std::string> names;
	for (const Interface& each : all) {
		EXPECT_EQ(if_nametoindex(each.name.c_str()), each.index);
		EXPECT_GT(each.mtu, 0u);
		EXPECT_NE(each.guid, 0u);
		EXPECT_TRUE(each.is_up || !each.is_active);
		EXPECT_LT(each.gids.size(), gid_table_length);
		EXPECT_TRUE(std::ranges::is_sorted(each.gids, {}, gid_order));
		guids.insert(each.guid);
		names.insert(each.name);
	}
	EXPECT_EQ(guids.size(), all.size());
	EXPECT_EQ(names.size(), all.size());
}

TEST(ListInterfaces, PutsTheDefaultRouteFirstAndLoopbackLast) {
	const auto all = list_interfaces().value();
	for (std::size_t i = 0; i < all.size(); ++i) {
		EXPECT_TRUE(!all[i].is_default_route || i == 0);
		EXPECT_TRUE(!all[i].is_loopback ||
			all.size() - i == static_cast<std::size_t>(std::ranges::count_if(all, &Interface::is_loopback)));
	}
}

TEST(ListInterfaces, KnowsLoopback) {
	const auto all = list_interfaces().value();
	const auto lo = std::ranges::find(all, "lo", &Interface::name);
	if (lo == all.end() || !lo->is_up) GTEST_SKIP() << "lo is down in this network namespace";
	EXPECT_TRUE(lo->is_loopback);
	EXPECT_EQ(lo->is_up, lo->is_active);
	EXPECT_EQ(lo->mac, Mac{});
	EXPECT_EQ(active_mtu(lo->mtu), 4096u);
	ASSERT_FALSE(lo->gids.empty());
	EXPECT_EQ(lo->gids[0], parsed_gid("::ffff:127.0.0.1"));
}

TEST(ListInterfaces, IsTheSameTwice) {
	const auto once = list_interfaces().value(), twice = list_interfaces().value();
	ASSERT_EQ(once.size(), twice.size());
	for (std::size_t i = 0; i < once.size(); ++i) {
		EXPECT_EQ(once[i].name, twice[i].name);
		EXPECT_EQ(once[i].guid, twice[i].guid);
		EXPECT_EQ(once[i].gids, twice[i].gids);
		EXPECT_EQ(once[i].namespace_cookie, twice[i].namespace_cookie);
	}
}

}  // namespace
}  // namespace verbena::engine

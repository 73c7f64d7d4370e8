// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/gid_table.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

namespace verbena::engine {
namespace {

wire::Gid gid(const char* address) {
	wire::Gid bytes;
	EXPECT_EQ(inet_pton(AF_INET6, address, bytes.data()), 1);
	return bytes;
}

const wire::Gid ipv4 = gid("::ffff:192.0.2.2"), second_ipv4 = gid("::ffff:192.0.2.3"), global = gid("fd00::2"),
				link_local = gid("fe80::2"), none{};

TEST(GidOrder, IsIpv4ThenGlobalThenLinkLocal) {
	EXPECT_EQ(gid_order(gid("::ffff:192.0.2.2")), 0);
	EXPECT_EQ(gid_order(gid("fd00::2")), 1);
	EXPECT_EQ(gid_order(gid("2001:db8::1")), 1);
	EXPECT_EQ(gid_order(gid("::1")), 1);
	EXPECT_EQ(gid_order(gid("fe80::1")), 2);
	EXPECT_EQ(gid_order(gid("febf::1")), 2);
	EXPECT_EQ(gid_order(gid("fec0::1")), 1);
}

TEST(IsLoopback, IsAllOf127AndOneIpv6Address) {
	EXPECT_TRUE(is_loopback(gid("::ffff:127.0.0.1")));
	EXPECT_TRUE(is_loopback(gid("::ffff:127.8.9.10")));
	EXPECT_TRUE(is_loopback(gid("::1")));
	EXPECT_FALSE(is_loopback(none));
	EXPECT_FALSE(is_loopback(ipv4));
	EXPECT_FALSE(is_loopback(gid("::127.0.0.1")));
}

TEST(NewGidTable, BeginsWithAnAddressThatWorks) {
	EXPECT_EQ(new_gid_table({link_local, global, ipv4}), (GidTable{ipv4, global, link_local}));
}

TEST(NewGidTable, LeavesTheLastEntryEmpty) {
	std::vector<wire::Gid> many(300, ipv4);
	for (std::size_t i = 0; i < many.size(); ++i)
		many[i][14] = static_cast<std::uint8_t>(i / 256), many[i][15] = static_cast<std::uint8_t>(i);
	EXPECT_EQ(new_gid_table(many).size(), gid_table_length - 1);
	EXPECT_EQ(next_gid_table({}, many).size(), gid_table_length - 1);
}

TEST(NextGidTable, KeepsTheIndexOfAnAddressThatStays) {
	const GidTable before{ipv4, global, link_local};
	EXPECT_EQ(next_gid_table(before, {global, link_local}), (GidTable{none, global, link_local}));
	EXPECT_EQ(next_gid_table(before, {ipv4, second_ipv4, global, link_local}),
		(GidTable{ipv4, global, link_local, second_ipv4}));
}

TEST(NextGidTable, PutsANewAddressIntoTheFirstEmptySlot) {
	EXPECT_EQ(next_gid_table({none, global, none, link_local}, {second_ipv4, global, link_local}),
		(GidTable{second_ipv4, global, none, link_local}));
}

TEST(NextGidTable, EndsAtTheLastGid) {
	EXPECT_EQ(next_gid_table({ipv4, global, link_local}, {ipv4}), GidTable{ipv4});
	EXPECT_EQ(next_gid_table({ipv4}, {}), GidTable{});
}

TEST(NextGidTable, OfANewDeviceIsTheNewTable) {
	EXPECT_EQ(next_gid_table({}, {ipv4, global, link_local}), (GidTable{ipv4, global, link_local}));
}

TEST(GidAt, IsNullForAnEmptySlotAndPastTheEnd) {
	const GidTable table{none, global};
	EXPECT_EQ(gid_at(table, 0), nullptr);
	ASSERT_NE(gid_at(table, 1), nullptr);
	EXPECT_EQ(*gid_at(table, 1), global);
	EXPECT_EQ(gid_at(table, 2), nullptr);
}

TEST(FindGid, DoesNotFindTheEmptySlot) {
	EXPECT_EQ(find_gid({none, global}, none), std::nullopt);
	EXPECT_EQ(find_gid({none, global}, global), 1);
	EXPECT_EQ(first_gid({none, global}), 1);
	EXPECT_EQ(first_gid({}), std::nullopt);
}

}  // namespace
}  // namespace verbena::engine

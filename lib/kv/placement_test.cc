// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace verbena::kv {
namespace {

using Servers = std::vector<std::string>;
constexpr int keys = 30'000;

std::string key_of(int i) { return "key " + std::to_string(i); }

TEST(Placement, EachServerHasItsShare) {
	const Servers servers{"a:7472", "b:7472", "c:7472"};
	std::map<std::size_t, int> count;
	for (int i = 0; i < keys; ++i) ++count[owner_of(servers, key_of(i))];
	for (const auto& [server, have] : count) EXPECT_NEAR(have, keys / 3, keys / 30) << server;
}

TEST(Placement, TheOrderOfTheNamesDoesNotMatter) {
	Servers one{"a:1", "b:2", "c:3", "d:4"}, other{"c:3", "a:1", "d:4", "b:2"};
	for (int i = 0; i < 1000; ++i) EXPECT_EQ(one[owner_of(one, key_of(i))], other[owner_of(other, key_of(i))]);
}

TEST(Placement, JoiningAndLeavingMoveOnlyTheShareOfThatServer) {
	const Servers three{"a:1", "b:2", "c:3"}, four{"a:1", "b:2", "c:3", "d:4"};
	int moved = 0;
	for (int i = 0; i < keys; ++i) {
		const std::string &before = three[owner_of(three, key_of(i))], &after = four[owner_of(four, key_of(i))];
		if (before == after) continue;
		++moved;
		EXPECT_EQ(after, "d:4");
	}
	EXPECT_NEAR(moved, keys / 4, keys / 40);
}

TEST(Placement, KeysSpreadOverTheSlotsAndSlotsOverTheMembers) {
	std::map<std::size_t, int> keys_of_slot, slots_of_member;
	for (int i = 0; i < keys; ++i) ++keys_of_slot[slot_of(key_of(i))];
	EXPECT_EQ(keys_of_slot.size(), slot_count);
	EXPECT_EQ(keys_of_slot.rbegin()->first, slot_count - 1);
	const Servers members{"a:7472", "b:7472", "c:7472"};
	for (std::size_t slot = 0; slot < slot_count; ++slot) ++slots_of_member[owner_of_slot(members, slot)];
	for (const auto& [member, have] : slots_of_member) EXPECT_NEAR(have, 341, 60) << member;
}

// Servers and clients of all versions must agree.
TEST(Placement, TheSlotOfAKeyAndItsOwnerAreThoseOfEveryVersion) {
	EXPECT_EQ(slot_of("key"), 751u);
	EXPECT_EQ(slot_of("another key"), 588u);
	const Servers members{"a:1", "b:2", "c:3"};
	std::string owners;
	for (const std::size_t slot : {0, 1, 255, 256, 512, 1023}) owners += members[owner_of_slot(members, slot)][0];
	EXPECT_EQ(owners, "bbaacb");
}

TEST(Placement, AServerNameAlwaysHasAPort) {
	EXPECT_EQ(server_name("a", 7472).value(), "a:7472");
	EXPECT_EQ(server_name("a:1", 7472).value(), "a:1");
	EXPECT_EQ(server_name("::1", 7472).value(), "[::1]:7472");
	EXPECT_EQ(server_name("[::1]:5", 7472).value(), "[::1]:5");
}

}  // namespace
}  // namespace verbena::kv

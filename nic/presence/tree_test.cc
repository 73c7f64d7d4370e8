// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/tree.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace verbena::presence {
namespace {

Tree example_tree() {
	Tree tree;
	tree.add("/sys", {Kind::passage, {}});
	tree.add("/sys/class", {Kind::passage, {}});
	tree.add("/sys/devices", {Kind::passage, {}});
	tree.add("/sys/class/infiniband/vb_lo", {Kind::link, "../../devices/infiniband/vb_lo"});
	tree.add("/sys/class/infiniband/rxe0", {Kind::system, {}});
	tree.add("/sys/devices/infiniband/vb_lo/fw_ver", {Kind::file, "1\n"});
	tree.add("/sys/devices/infiniband/vb_lo/net/lo", {Kind::link, "/sys/class/net/lo"});
	tree.add("/sys/devices/infiniband/vb_lo/circle", {Kind::link, "circle"});
	return tree;
}

TEST(Tree, FoldersAboveAnEntryAreAdded) {
	const Tree tree = example_tree();
	ASSERT_NE(tree.find("/sys/class/infiniband"), nullptr);
	EXPECT_EQ(tree.find("/sys/class/infiniband")->kind, Kind::folder);
}

TEST(Tree, LinksOnTheWayAreFollowed) {
	const Tree tree = example_tree();
	const Place place = tree.walk("/sys/class/infiniband/vb_lo/fw_ver", false);
	EXPECT_EQ(place.path, "/sys/devices/infiniband/vb_lo/fw_ver");
	ASSERT_NE(place.entry, nullptr);
	EXPECT_EQ(place.entry->text, "1\n");
}

TEST(Tree, LinkAtTheEndIsFollowedOnlyIfAsked) {
	const Tree tree = example_tree();
	EXPECT_EQ(tree.walk("/sys/class/infiniband/vb_lo", false).entry->kind, Kind::link);
	EXPECT_EQ(tree.walk("/sys/class/infiniband/vb_lo", true).path, "/sys/devices/infiniband/vb_lo");
	EXPECT_EQ(tree.walk("/sys/class/infiniband/vb_lo/", false).path, "/sys/devices/infiniband/vb_lo");
}

TEST(Tree, DotsAreTakenAfterLinks) {
	const Tree tree = example_tree();
	EXPECT_EQ(
		tree.walk("/sys//class/./infiniband/vb_lo/../vb_lo/fw_ver", true).path, "/sys/devices/infiniband/vb_lo/fw_ver");
	EXPECT_EQ(tree.walk("/sys/class/infiniband/vb_lo/../../../class/net", true).path, "/sys/class/net");
}

TEST(Tree, PathThatLeadsOutGoesOnInTheSystem) {
	const Tree tree = example_tree();
	const Place place = tree.walk("/sys/class/infiniband/vb_lo/net/lo/address", true);
	EXPECT_EQ(place.entry, nullptr);
	EXPECT_EQ(place.path, "/sys/class/net/lo/address");
	EXPECT_FALSE(place.missing);
}

TEST(Tree, EntryOfTheSystemIsLeftToIt) {
	const Tree tree = example_tree();
	const Place place = tree.walk("/sys/class/infiniband/rxe0/fw_ver", true);
	EXPECT_EQ(place.entry, nullptr);
	EXPECT_EQ(place.path, "/sys/class/infiniband/rxe0/fw_ver");
	EXPECT_FALSE(place.missing);
}

TEST(Tree, NameThatAFolderOfOursLacksIsMissing) {
	const Tree tree = example_tree();
	EXPECT_TRUE(tree.walk("/sys/class/infiniband/vb_eth9", true).missing);
	EXPECT_FALSE(tree.walk("/sys/class/infiniband/vb_eth9/fw_ver", true).missing);
	EXPECT_FALSE(tree.walk("/sys/class/other", true).missing);
}

TEST(Tree, FileIsNoFolder) {
	const Tree tree = example_tree();
	EXPECT_EQ(tree.walk("/sys/class/infiniband/vb_lo/fw_ver/x", true).error, ENOTDIR);
	EXPECT_EQ(tree.walk("/sys/class/infiniband/vb_lo/fw_ver/", true).error, ENOTDIR);
}

TEST(Tree, CircleOfLinksEnds) {
	EXPECT_EQ(example_tree().walk("/sys/class/infiniband/vb_lo/circle", true).error, ELOOP);
}

TEST(Tree, HashChangesWithContentNameAndKind) {
	const std::uint64_t before = example_tree().hash();
	EXPECT_EQ(example_tree().hash(), before);
	Tree content = example_tree(), name = example_tree(), kind = example_tree();
	content.add("/sys/devices/infiniband/vb_lo/fw_ver", {Kind::file, "2\n"});
	name.add("/sys/devices/infiniband/vb_lo/fw_ver2", {Kind::file, "1\n"});
	kind.add("/sys/devices/infiniband/vb_lo/fw_ver", {Kind::live, "1\n"});
	EXPECT_NE(content.hash(), before);
	EXPECT_NE(name.hash(), before);
	EXPECT_NE(kind.hash(), before);
}

}  // namespace
}  // namespace verbena::presence

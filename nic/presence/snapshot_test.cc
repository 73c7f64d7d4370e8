// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/snapshot.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace verbena::presence {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
	std::ifstream file(path);
	return {std::istreambuf_iterator<char>(file), {}};
}

Tree example(const std::string& firmware) {
	Tree tree;
	tree.add("/sys/class/vb_lo", {Kind::link, "../devices/vb_lo"});
	tree.add("/sys/devices/vb_lo/fw_ver", {Kind::file, firmware});
	tree.add("/sys/devices/vb_lo/same", {Kind::file, firmware});
	tree.add("/dev/infiniband/uverbs1", {Kind::device, {}, 1});
	return tree;
}

// A folder of its own for each test, which is removed at the end.
class Snapshot : public testing::Test {
protected:
	void SetUp() override {
		char name[] = "/tmp/verbena-snapshot-test-XXXXXX";
		ASSERT_NE(mkdtemp(name), nullptr);
		folder = name;
	}
	void TearDown() override { fs::remove_all(folder); }

	std::vector<std::string> homes() const { return {folder / "home"}; }
	fs::path folder;
};

TEST_F(Snapshot, HasTheFilesAndLinksOfItsTree) {
	const fs::path root = make_snapshot(example("1\n"), homes());
	ASSERT_FALSE(root.empty());
	EXPECT_EQ(read(root / "sys/class/vb_lo/fw_ver"), "1\n");
	EXPECT_EQ(read(root / "sys/devices/vb_lo/same"), "1\n");
	EXPECT_TRUE(fs::is_symlink(fs::symlink_status(root / "sys/class/vb_lo")));
	EXPECT_TRUE(fs::exists(fs::symlink_status(root / "dev/infiniband/uverbs1")));
}

TEST_F(Snapshot, IsSharedByEqualTreesAndByNoOthers) {
	const std::string first = make_snapshot(example("1\n"), homes());
	EXPECT_EQ(make_snapshot(example("1\n"), homes()), first);
	EXPECT_NE(make_snapshot(example("2\n"), homes()), first);
}

TEST_F(Snapshot, ThatWasRemovedIsMadeAgain) {
	const std::string first = make_snapshot(example("1\n"), homes());
	fs::remove_all(first);
	EXPECT_EQ(make_snapshot(example("1\n"), homes()), first);
	EXPECT_TRUE(fs::exists(first + "/sys/devices/vb_lo/fw_ver"));
}

TEST_F(Snapshot, IsPrivate) {
	make_snapshot(example("1\n"), homes());
	struct stat status;
	ASSERT_EQ(stat(homes()[0].c_str(), &status), 0);
	EXPECT_EQ(status.st_mode & 07777, 0700u);
}

TEST_F(Snapshot, HomeThatOthersCanWriteToIsRefused) {
	fs::create_directory(homes()[0]);
	fs::permissions(homes()[0], fs::perms::all);
	EXPECT_EQ(make_snapshot(example("1\n"), homes()), "");
	EXPECT_EQ(make_snapshot(example("1\n"), {homes()[0], folder / "second"}).find(folder / "second"), 0u);
}

TEST_F(Snapshot, HomeThatIsALinkIsRefused) {
	fs::create_directory(folder / "elsewhere");
	fs::permissions(folder / "elsewhere", fs::perms::owner_all);
	fs::create_symlink(folder / "elsewhere", homes()[0]);
	EXPECT_EQ(make_snapshot(example("1\n"), homes()), "");
	EXPECT_TRUE(fs::is_empty(folder / "elsewhere"));
}

TEST_F(Snapshot, HomeOfAnotherUserIsRefused) {
	fs::create_directory(homes()[0]);
	fs::permissions(homes()[0], fs::perms::owner_all);
	// Only root can give a folder away; other users find one of root's.
	const bool given = chown(homes()[0].c_str(), 12345, 12345) == 0;
	EXPECT_EQ(make_snapshot(example("1\n"), given ? homes() : std::vector<std::string>{"/usr"}), "");
}

TEST_F(Snapshot, ThreadsThatMakeTheSameOneAllGetIt) {
	std::vector<std::string> roots(8);
	{
		std::vector<std::jthread> threads;
		for (std::string& root : roots)
			threads.emplace_back([&root, this] { root = make_snapshot(example("1\n"), homes()); });
	}
	for (const std::string& root : roots) EXPECT_EQ(root, roots[0]);
	EXPECT_FALSE(roots[0].empty());
	EXPECT_EQ(std::distance(fs::directory_iterator(homes()[0]), {}), 1) << "what was built aside is gone";
}

TEST_F(Snapshot, OldOnesAreRemovedWhenANewOneIsMade) {
	for (int i = 0; i < 12; ++i) {
		const fs::path root = make_snapshot(example(std::to_string(i)), homes());
		fs::last_write_time(root, fs::file_time_type::clock::now() - std::chrono::hours(12 - i));
	}
	const std::string last = make_snapshot(example("new"), homes());
	EXPECT_EQ(std::distance(fs::directory_iterator(homes()[0]), {}), 8);
	EXPECT_TRUE(fs::exists(last));
}

TEST_F(Snapshot, OldOnesThatAreInUseStay) {
	for (int i = 0; i < 12; ++i) make_snapshot(example(std::to_string(i)), homes());
	EXPECT_EQ(std::distance(fs::directory_iterator(homes()[0]), {}), 12);
}

TEST_F(Snapshot, PathInsideLosesTheFolderOnDisk) {
	const std::string root = make_snapshot(example("1\n"), homes());
	EXPECT_EQ(inside_snapshot(root + "/sys/class/vb_lo", homes()), "/sys/class/vb_lo");
	EXPECT_EQ(inside_snapshot(root, homes()), "/");
	EXPECT_EQ(inside_snapshot(root + "x/sys", homes()), "");
	EXPECT_EQ(inside_snapshot("/sys/class/vb_lo", homes()), "");
}

}  // namespace
}  // namespace verbena::presence

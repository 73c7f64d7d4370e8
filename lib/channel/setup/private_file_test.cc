// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/private_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <iterator>

#include "lib/channel/setup/fixture.h"

namespace verbena::channel {
namespace {

using namespace testing_tools;

std::string contents(const std::string& path) {
	std::ifstream file(path);
	return {std::istreambuf_iterator<char>(file), {}};
}

mode_t mode_of(const std::string& path) {
	struct stat status{};
	EXPECT_EQ(stat(path.c_str(), &status), 0);
	return status.st_mode & 07777u;
}

TEST(WholeFile, HasItsModeWhateverTheUmask) {
	const Folder folder;
	const mode_t before = umask(0);
	EXPECT_EQ(write_whole(folder / "key", "secret"), true);
	umask(077);
	EXPECT_EQ(write_whole(folder / "certificate", "public", {.mode = 0644}), true);
	umask(before);
	EXPECT_EQ(mode_of(folder / "key"), 0600u);
	EXPECT_EQ(mode_of(folder / "certificate"), 0644u);
	EXPECT_EQ(contents(folder / "key"), "secret");
}

TEST(WholeFile, ThatIsThereIsReplacedOnlyIfThatWasAsked) {
	const Folder folder;
	folder.write("key", "old");
	EXPECT_EQ(write_whole(folder / "key", "new"), false);
	EXPECT_EQ(contents(folder / "key"), "old");
	EXPECT_EQ(write_whole(folder / "key", "new", {.replace = true}), true);
	EXPECT_EQ(contents(folder / "key"), "new");
	EXPECT_EQ(mode_of(folder / "key"), 0600u);
	EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "nothing else is left there";
}

TEST(WholeFile, WithoutAFolderIsAnErrorThatNamesIt) {
	const auto written = write_whole("/nowhere/key", "secret");
	ASSERT_FALSE(written);
	EXPECT_EQ(written.error(), "cannot write /nowhere/key: No such file or directory");
}

// Gives the file this mode and, unless it is -1, this owner, and returns the error of reading it.
std::string refusal(const std::string& path, mode_t mode, uid_t owner = static_cast<uid_t>(-1)) {
	EXPECT_EQ(chmod(path.c_str(), mode), 0);
	EXPECT_EQ(chown(path.c_str(), owner, static_cast<gid_t>(-1)), 0);
	const auto text = read_secret_file(path);
	if (!text) return text.error();
	EXPECT_EQ(*text, "secret");
	return "";
}

// Makes this process an ordinary user's who owns the folder: root's own keys have another limit.
class OrdinaryUser {
public:
	explicit OrdinaryUser(const Folder& folder) {
		if (getuid() != 0) return;
		EXPECT_EQ(chown(folder.path().c_str(), 1234, static_cast<gid_t>(-1)), 0);
		EXPECT_EQ(seteuid(1234), 0);
	}
	~OrdinaryUser() {
		if (getuid() == 0) {
			EXPECT_EQ(seteuid(0), 0);
		}
	}
	OrdinaryUser(const OrdinaryUser&) = delete;
	OrdinaryUser& operator=(const OrdinaryUser&) = delete;
};

TEST(KeyFile, ThatOthersMayAccessIsRefused) {
	const Folder folder;
	const OrdinaryUser user(folder);
	const std::string key = folder.write("key", "secret");
	EXPECT_EQ(refusal(key, 0600), "");
	EXPECT_EQ(refusal(key, 0400), "");
	for (const mode_t mode : {0640, 0604, 0644, 0660, 0601})
		EXPECT_NE(refusal(key, mode).find("chmod 600"), std::string::npos) << std::oct << mode;
}

TEST(KeyFile, OfRootMayBeReadByItsGroup) {
	if (geteuid() != 0) GTEST_SKIP() << "only root can make a file of root's";
	const Folder folder;
	const std::string key = folder.write("key", "secret");
	for (const mode_t mode : {0600, 0400, 0640, 0440}) EXPECT_EQ(refusal(key, mode), "") << std::oct << mode;
	for (const mode_t mode : {0644, 0604, 0660, 0650})
		EXPECT_NE(refusal(key, mode).find("chmod 640"), std::string::npos) << std::oct << mode;
	EXPECT_NE(refusal(key, 0600, 1234).find("belongs to user 1234"), std::string::npos);
}

TEST(KeyFile, OfRootIsGoodForAnOrdinaryUserWhoseGroupMayReadIt) {
	if (geteuid() != 0) GTEST_SKIP() << "only root can make a file of root's";
	const Folder folder;
	const std::string key = folder.write("key", "secret");
	EXPECT_EQ(chmod(key.c_str(), 0640), 0);
	const OrdinaryUser user(folder);
	EXPECT_EQ(read_secret_file(key), "secret");
}

TEST(KeyFile, ThatDoesNotExistIsNamed) {
	const auto text = read_secret_file("/nowhere/key");
	ASSERT_FALSE(text.has_value());
	EXPECT_NE(text.error().find("/nowhere/key"), std::string::npos);
}

}  // namespace
}  // namespace verbena::channel

// SPDX-License-Identifier: Apache-2.0
#include "base/private_folder.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace verbena {
namespace {

namespace fs = std::filesystem;

class PrivateFolder : public testing::Test {
protected:
	PrivateFolder() {
		char made[] = "/tmp/private_folder_test.XXXXXX";
		root = mkdtemp(made);
		for (const char* name : variables) {
			const char* value = std::getenv(name);
			before.push_back(value ? std::optional<std::string>(value) : std::nullopt);
			unsetenv(name);
		}
	}
	~PrivateFolder() override {
		for (std::size_t i = 0; i < before.size(); ++i) {
			if (before[i]) setenv(variables[i], before[i]->c_str(), 1);
			else unsetenv(variables[i]);
		}
		fs::remove_all(root);
	}
	static bool opens(const std::string& path) {
		const int fd = open_private_folder(path);
		return fd >= 0 && close(fd) == 0;
	}
	static unsigned mode(const fs::path& path) {
		struct stat facts;
		return stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777 : 0;
	}

	static constexpr const char* variables[] = {"XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "HOME"};
	std::vector<std::optional<std::string>> before;
	fs::path root;
};

TEST_F(PrivateFolder, OfTheSessionComesFirstAndTheOneInTheUsersCacheLast) {
	setenv("XDG_RUNTIME_DIR", "/run/session", 1);
	setenv("HOME", "/home/user", 1);
	const std::string id = std::to_string(geteuid()), user = "verbena-" + id;
	const std::vector<std::string> expected{"/run/session/verbena", "/run/user/" + id + "/verbena", "/dev/shm/" + user,
		"/tmp/" + user, "/home/user/.cache/verbena"};
	EXPECT_EQ(private_folders(), expected);
	setenv("XDG_CACHE_HOME", "/var/cache/user", 1);
	EXPECT_EQ(private_folders().back(), "/var/cache/user/verbena");
}

TEST_F(PrivateFolder, IsNotInARelativePath) {
	for (const char* name : variables) setenv(name, "relative", 1);
	EXPECT_EQ(private_folders().size(), 3u);
}

TEST_F(PrivateFolder, OfASessionIsAlsoThatOfAProcessWithoutXdgRuntimeDir) {
	const auto without = private_folders();
	setenv("XDG_RUNTIME_DIR", ("/run/user/" + std::to_string(geteuid())).c_str(), 1);
	EXPECT_EQ(private_folders(), without);
}

TEST_F(PrivateFolder, InTheCacheOfAUserWhoHasNoneIsMadeForThisUserAlone) {
	setenv("HOME", root.c_str(), 1);
	EXPECT_TRUE(opens(private_folders().back()));
	EXPECT_EQ(mode(root / ".cache"), 0700u);
	EXPECT_EQ(mode(root / ".cache/verbena"), 0700u);
	EXPECT_TRUE(opens(private_folders().back())) << "it is found again";
}

TEST_F(PrivateFolder, MakesNoHomeAndNoOtherParents) {
	setenv("HOME", (root / "absent").c_str(), 1);
	EXPECT_FALSE(opens(private_folders().back()));
	EXPECT_FALSE(opens(root / "runtime/verbena"));
	EXPECT_TRUE(fs::is_empty(root));
}

TEST_F(PrivateFolder, IsNotMadeInTheHomeOfAnotherUser) {
	if (geteuid() != 0) GTEST_SKIP() << "only root may give a folder to another user";
	setenv("HOME", root.c_str(), 1);
	ASSERT_EQ(chown(root.c_str(), 65534, 65534), 0);
	EXPECT_FALSE(opens(private_folders().back()));
	EXPECT_TRUE(fs::is_empty(root)) << "not even root leaves files in it";
}

TEST_F(PrivateFolder, ThatAnotherUserHasMadeIsNamedWithThatUser) {
	if (geteuid() != 0) GTEST_SKIP() << "only root may give a folder to another user";
	const std::vector<std::string> folders{root / "missing", root / "ours", root / "foreign"};
	for (const char* name : {"ours", "foreign"}) fs::create_directory(root / name);
	ASSERT_EQ(chown((root / "foreign").c_str(), 65534, 65534), 0);
	const auto foreign = foreign_folder(folders);
	ASSERT_TRUE(foreign);
	EXPECT_EQ(foreign->path, folders[2]);
	EXPECT_EQ(foreign->owner, 65534u);
	EXPECT_TRUE(foreign_folder(folders, "/elsewhere/snapshot"));
	EXPECT_FALSE(foreign_folder(folders, folders[1] + "/snapshot")) << "one before it is used";
	EXPECT_FALSE(opens(folders[2]));
}

TEST_F(PrivateFolder, ThatIsALinkOfAnotherUserIsForeignWhereverItLeads) {
	if (geteuid() != 0) GTEST_SKIP() << "only root may give a link to another user";
	fs::create_directory(root / "ours");
	fs::create_directory_symlink(root / "ours", root / "link");
	ASSERT_EQ(lchown((root / "link").c_str(), 65534, 65534), 0);
	EXPECT_FALSE(opens(root / "link"));
	EXPECT_EQ(foreign_folder({root / "link"})->owner, 65534u);
}

}  // namespace
}  // namespace verbena

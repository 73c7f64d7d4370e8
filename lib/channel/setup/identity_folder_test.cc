// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/identity_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "lib/channel/setup/fixture.h"
#include "lib/channel/setup/identity.h"

namespace verbena::channel {
namespace {

using namespace testing_tools;
using testing::HasSubstr;

class IdentityFolder : public testing::Test {
protected:
	IdentityFolder() { std::filesystem::create_directory(home); }
	std::string chosen(const IdentityPlaces& places) const { return made(choose_identity_folder(places)); }
	// The identity in the chosen folder; it is made if there is none.
	std::string key(const IdentityPlaces& places) const {
		return made(find_or_create_identity(chosen(places), geteuid())).credential.key_pem;
	}

	Folder folder;  // belongs to this user, as that of XDG_RUNTIME_DIR does
	std::string home = folder / "home", configured = home + "/.config/verbena";
	std::vector<std::string> privates{folder / "session", folder / "memory"};
	IdentityPlaces with_home{.home = home, .private_folders = privates};
	IdentityPlaces without_home{.private_folders = privates};
};

TEST_F(IdentityFolder, IsWhereTheXdgSpecificationSays) {
	EXPECT_EQ(chosen({.xdg_config_home = "/x", .home = "/home/u"}), "/x/verbena");
	EXPECT_EQ(chosen({.home = "/home/u"}), "/home/u/.config/verbena");
	EXPECT_EQ(chosen({.xdg_config_home = "relative", .home = "/home/u"}), "/home/u/.config/verbena");
	EXPECT_THAT(choose_identity_folder({}).error(), HasSubstr("--ca, --cert and --key"));
}

TEST_F(IdentityFolder, InAHomeThatCanBeWrittenComesFirstAndIsNotMadeByTheChoice) {
	EXPECT_EQ(chosen(with_home), configured);
	EXPECT_FALSE(std::filesystem::exists(home + "/.config"));
	EXPECT_FALSE(std::filesystem::exists(privates[0]));
	EXPECT_EQ(key(with_home), key(with_home));
}

TEST_F(IdentityFolder, IsPrivateWithoutAHomeAndIsFoundAgain) {
	EXPECT_EQ(chosen(without_home), privates[0]);
	struct stat status;
	ASSERT_EQ(stat(privates[0].c_str(), &status), 0);
	EXPECT_EQ(status.st_mode & 07777u, 0700u);
	EXPECT_EQ(key(without_home), key(without_home));
}

TEST_F(IdentityFolder, IsPrivateIfTheHomeDoesNotExistOrIsAFile) {
	EXPECT_EQ(chosen({.home = folder / "absent", .private_folders = privates}), privates[0]);
	EXPECT_FALSE(std::filesystem::exists(folder / "absent")) << "no home is made";
	EXPECT_EQ(chosen({.home = folder.write("file", ""), .private_folders = privates}), privates[0]);
}

TEST_F(IdentityFolder, WithAnIdentityComesBeforeABetterOneWithout) {
	const std::string of_memory = key({.private_folders = {privates[1]}});
	EXPECT_EQ(key(without_home), of_memory);
	EXPECT_EQ(key(with_home), of_memory) << "a process with a home joins those without one";
	EXPECT_EQ(chosen({.xdg_config_home = folder / "own", .private_folders = privates}), folder / "own/verbena")
		<< "the user asks for an identity of its own";
	const std::string of_home = made(find_or_create_identity(configured, geteuid())).credential.key_pem;
	EXPECT_EQ(key(with_home), of_home);
	EXPECT_NE(of_home, of_memory);
}

TEST_F(IdentityFolder, ThatOthersMayEnterIsNotUsed) {
	key(without_home);
	chmod(privates[0].c_str(), 0755);
	EXPECT_EQ(chosen(without_home), privates[1]);
}

TEST_F(IdentityFolder, ThatIsALinkIsNotUsed) {
	key({.private_folders = {privates[1]}});
	std::filesystem::create_directory_symlink(privates[1], privates[0]);
	EXPECT_EQ(chosen(without_home), privates[1]);
}

TEST_F(IdentityFolder, OfAnotherUserIsNotUsedAndIsNamedIfThereIsNoOther) {
	if (geteuid() != 0) GTEST_SKIP() << "only root may give a folder to another user";
	key(without_home);
	for (const std::string& name : {privates[0], privates[0] + "/identity.pem"})
		ASSERT_EQ(chown(name.c_str(), 65534, 65534), 0);
	EXPECT_EQ(chosen(without_home), privates[1]);
	EXPECT_THAT(choose_identity_folder({.private_folders = {privates[0]}}).error(),
		AllOf(HasSubstr("neither HOME nor XDG_CONFIG_HOME is set"), HasSubstr("user id 65534 has made " + privates[0]),
			HasSubstr("set XDG_CONFIG_HOME to a folder that can be written")));
}

}  // namespace
}  // namespace verbena::channel

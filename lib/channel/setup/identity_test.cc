// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/identity.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/channel/setup/fixture.h"

namespace verbena::channel {
namespace {

using namespace testing_tools;
using testing::HasSubstr;

class IdentityFile : public testing::Test {
protected:
	std::expected<Identity, std::string> get(uid_t owner = geteuid()) const {
		return find_or_create_identity(place, owner);
	}
	std::string refusal(uid_t owner = geteuid()) const {
		const auto got = get(owner);
		return got ? "none" : got.error();
	}

	Folder folder;
	std::string place = folder / "config/verbena";
	std::string file = place + "/identity.pem";
};

TEST_F(IdentityFile, IsMadeOnFirstUseForItsUserAlone) {
	EXPECT_FALSE(made(find_identity(place, geteuid())));
	const auto identity = get();
	ASSERT_TRUE(identity) << identity.error();
	EXPECT_TRUE(identity->created);
	EXPECT_EQ(identity->path, file);
	struct stat status;
	ASSERT_EQ(stat(file.c_str(), &status), 0);
	EXPECT_EQ(status.st_mode & 07777u, 0600u);
	EXPECT_EQ(status.st_nlink, 1u);
	ASSERT_EQ(stat(place.c_str(), &status), 0);
	EXPECT_EQ(status.st_mode & 07777u, 0700u);
	EXPECT_EQ(std::distance(std::filesystem::directory_iterator(place), {}), 1) << "nothing else is left there";
}

TEST_F(IdentityFile, StaysTheSame) {
	const auto first = get(), second = get();
	ASSERT_TRUE(first && second);
	EXPECT_FALSE(second->created);
	EXPECT_EQ(first->credential.key_pem, second->credential.key_pem);
	EXPECT_EQ(*fingerprint(first->credential.certificate_pem), *fingerprint(second->credential.certificate_pem));
}

TEST_F(IdentityFile, SixteenProcessesAtOnceAllGetTheSame) {
	int go[2], results[2];
	ASSERT_EQ(pipe(go), 0);
	ASSERT_EQ(pipe(results), 0);
	std::vector<pid_t> children;
	for (int i = 0; i < 16; ++i) {
		const pid_t child = fork();
		ASSERT_GE(child, 0);
		if (child == 0) {
			close(go[1]);
			char byte;
			if (read(go[0], &byte, 1) < 0) _exit(1);  // all start when the pipe is closed
			const auto identity = get();
			const std::string shown =
				identity ? *fingerprint(identity->credential.certificate_pem) : std::string(50, '!');
			_exit(write(results[1], shown.data(), 50) == 50 ? 0 : 1);
		}
		children.push_back(child);
	}
	close(go[0]);
	close(go[1]);
	close(results[1]);
	std::string all;
	for (char byte; read(results[0], &byte, 1) == 1;) all += byte;
	close(results[0]);
	for (const pid_t child : children) EXPECT_EQ(waitpid(child, nullptr, 0), child);
	ASSERT_EQ(all.size(), 16u * 50);
	const std::string expected = *fingerprint(get()->credential.certificate_pem);
	for (int i = 0; i < 16; ++i) EXPECT_EQ(all.substr(static_cast<std::size_t>(i) * 50, 50), expected);
	EXPECT_EQ(std::distance(std::filesystem::directory_iterator(place), {}), 1);
}

TEST_F(IdentityFile, ThatOthersMayReadIsRefused) {
	ASSERT_TRUE(get());
	chmod(file.c_str(), 0640);
	EXPECT_THAT(refusal(), AllOf(HasSubstr("identity.pem has mode 0640"), HasSubstr("delete it")));
	chmod(file.c_str(), 0600);
	EXPECT_TRUE(get());
}

TEST_F(IdentityFile, InAFolderWhereOthersMayWriteIsRefused) {
	ASSERT_TRUE(get());
	chmod(place.c_str(), 0770);
	EXPECT_THAT(refusal(), HasSubstr("chmod 700 " + place));
	std::filesystem::remove(file);
	EXPECT_THAT(refusal(), HasSubstr("chmod 700 " + place)) << "nor is one made there";
	EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(IdentityFile, OfAnotherUserIsRefused) {
	ASSERT_TRUE(get());
	EXPECT_THAT(refusal(geteuid() + 1), AllOf(HasSubstr("belongs to uid"), HasSubstr("XDG_CONFIG_HOME")));
}

TEST_F(IdentityFile, ThatIsASymbolicLinkAFolderOrNoIdentityIsRefused) {
	std::filesystem::create_directories(place);
	chmod(place.c_str(), 0700);
	std::filesystem::create_symlink("/dev/null", file);
	EXPECT_THAT(refusal(), HasSubstr("symbolic link"));
	std::filesystem::remove(file);
	std::filesystem::create_directory(file);
	EXPECT_THAT(refusal(), HasSubstr("is not a file"));
	std::filesystem::remove(file);
	folder.write("config/verbena/identity.pem", "hello");
	chmod(file.c_str(), 0600);
	EXPECT_THAT(refusal(), HasSubstr("is not a key and its certificate"));
	folder.write("config/verbena/identity.pem", "h");
	EXPECT_THAT(refusal(), HasSubstr("is not a key and its certificate"));
}

TEST_F(IdentityFile, WithTheKeyOfAnotherCertificateIsRefused) {
	std::filesystem::create_directories(place);
	chmod(place.c_str(), 0700);
	folder.write(
		"config/verbena/identity.pem", make_identity("one")->key_pem + make_identity("other")->certificate_pem);
	chmod(file.c_str(), 0600);
	EXPECT_THAT(refusal(), HasSubstr("is not a key and its certificate"));
}

}  // namespace
}  // namespace verbena::channel

// SPDX-License-Identifier: Apache-2.0
#include "base/user_secret.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <linux/keyctl.h>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace verbena {
namespace {

namespace fs = std::filesystem;
using namespace detail;

constexpr int askers = 16;

// Lets several processes ask at the same moment; returns the secrets that they got.
template <class Ask> std::vector<std::optional<UserSecret>> ask_at_once(Ask ask) {
	int gate[2], answers[2];
	EXPECT_EQ(pipe(gate), 0);
	EXPECT_EQ(pipe(answers), 0);
	for (int i = 0; i < askers; ++i) {
		if (fork() != 0) continue;
		char byte;
		close(gate[1]);
		// Returns when the gate is closed.
		[[maybe_unused]] const ssize_t opened = read(gate[0], &byte, 1);
		const std::optional<UserSecret> secret = ask();
		_exit(write(answers[1], &secret, sizeof secret) == sizeof secret ? 0 : 1);
	}
	for (const int end : {gate[0], gate[1], answers[1]}) close(end);
	std::vector<std::optional<UserSecret>> all(askers);
	for (auto& secret : all) EXPECT_EQ(read(answers[0], &secret, sizeof secret), ssize_t{sizeof secret});
	close(answers[0]);
	for (int i = 0; i < askers; ++i) wait(nullptr);
	return all;
}

void expect_one_secret(const std::vector<std::optional<UserSecret>>& all, UserSecret::Where where) {
	for (const auto& secret : all) {
		ASSERT_TRUE(secret);
		EXPECT_EQ(secret->bytes, all.front()->bytes);
		EXPECT_EQ(secret->where, where);
	}
	EXPECT_TRUE(std::ranges::any_of(all.front()->bytes, [](std::byte byte) { return byte != std::byte{}; }));
}

class InFiles : public testing::Test {
protected:
	InFiles() {
		char made[] = "/tmp/user_secret_test.XXXXXX";
		root = mkdtemp(made);
		folder = root / "verbena";
	}
	~InFiles() override { fs::remove_all(root); }
	void write_secret(std::size_t bytes, fs::perms mode = fs::perms::owner_read | fs::perms::owner_write) {
		fs::create_directory(folder);
		fs::permissions(folder, fs::perms::owner_all);
		std::ofstream(folder / "names") << std::string(bytes, 'x');
		fs::permissions(folder / "names", mode);
	}

	fs::path root, folder;
};

TEST_F(InFiles, ProcessesThatAskAtTheSameMomentGetTheSameSecret) {
	for (int round = 0; round < 5; ++round) {
		expect_one_secret(ask_at_once([&] { return make_in_files({folder}); }), UserSecret::Where::file);
		EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "only the secret stays";
		fs::remove_all(folder);
	}
}

TEST_F(InFiles, ASecretIsFoundAgainAndIsReadableByItsUserAlone) {
	EXPECT_FALSE(find_in_files({folder}));
	const auto made = make_in_files({folder});
	ASSERT_TRUE(made);
	EXPECT_EQ(find_in_files({folder})->bytes, made->bytes);
	struct stat facts;
	ASSERT_EQ(stat((folder / "names").c_str(), &facts), 0);
	EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(InFiles, AFolderOrFileThatOthersMayReadIsNotUsed) {
	write_secret(32, fs::perms::owner_all | fs::perms::group_read);
	EXPECT_FALSE(find_in_files({folder}));
	write_secret(32);
	EXPECT_TRUE(find_in_files({folder}));
	fs::permissions(folder, fs::perms::owner_all | fs::perms::others_exec);
	EXPECT_FALSE(find_in_files({folder}));
}

TEST_F(InFiles, AFileOfAnotherLengthIsNotUsed) {
	for (const std::size_t bytes : {0, 31, 33}) {
		write_secret(bytes);
		EXPECT_FALSE(find_in_files({folder})) << bytes;
	}
}

TEST_F(InFiles, ALinkToAnotherFileIsNotFollowed) {
	write_secret(32);
	fs::rename(folder / "names", root / "elsewhere");
	fs::create_symlink(root / "elsewhere", folder / "names");
	EXPECT_FALSE(find_in_files({folder}));
}

TEST_F(InFiles, AFolderOfAnotherUserIsNotUsed) {
	if (geteuid() != 0) GTEST_SKIP() << "only root may give a folder to another user";
	write_secret(32);
	ASSERT_EQ(chown(folder.c_str(), 65534, 65534), 0);
	EXPECT_FALSE(find_in_files({folder}));
	EXPECT_FALSE(make_in_files({folder}));
}

class InKeyring : public testing::Test {
protected:
	void SetUp() override {
		if (!make_in_keyring(name.c_str())) GTEST_SKIP() << "keyrings are forbidden here";
		forget();
	}
	~InKeyring() override { forget(); }
	long key() const { return syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", name.c_str(), 0); }
	void forget() const { syscall(SYS_keyctl, KEYCTL_UNLINK, key(), KEY_SPEC_USER_KEYRING); }

	std::string name = "verbena:test:" + std::to_string(getpid());
};

TEST_F(InKeyring, ProcessesThatAskAtTheSameMomentGetTheSameSecret) {
	for (int round = 0; round < 5; ++round) {
		expect_one_secret(ask_at_once([&] { return make_in_keyring(name.c_str()); }), UserSecret::Where::keyring);
		forget();
		EXPECT_FALSE(find_in_keyring(name.c_str()));
	}
}

TEST_F(InKeyring, ASecretIsNotReplacedByALaterOneOfTheSameName) {
	const auto made = make_in_keyring(name.c_str());
	ASSERT_TRUE(made);
	EXPECT_EQ(syscall(SYS_add_key, "user", name.c_str(), "other", 5, KEY_SPEC_USER_KEYRING), -1);
	EXPECT_EQ(make_in_keyring(name.c_str())->bytes, made->bytes);
}

TEST_F(InKeyring, AProcessWithASessionOfItsOwnReadsTheSecret) {
	const auto made = make_in_keyring(name.c_str());
	ASSERT_TRUE(made);
	bool same = false;
	std::thread([&] {
		syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr);  // changes this thread alone
		const auto found = find_in_keyring(name.c_str());
		same = found && found->bytes == made->bytes;
	}).join();
	EXPECT_TRUE(same);
}

}  // namespace
}  // namespace verbena

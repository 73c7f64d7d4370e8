// SPDX-License-Identifier: Apache-2.0
#include "base/user_secret.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cancellation.h"
#include "base/private_folder.h"
#include "base/random.h"

namespace verbena {
namespace {

using Bytes = decltype(UserSecret::bytes);

constexpr const char* key_type = "user";
// The possessor may also set attributes. No process may write the key, not even its owner: an
// add_key() with the same name would otherwise replace the bytes that others have read.
constexpr unsigned key_rights = 0x3b1b0000;
constexpr int keyctl_move_exclusively = 1;  // KEYCTL_MOVE_EXCL, since Linux 5.3
constexpr const char* file_name = "names";

Bytes random_bytes() {
	Bytes bytes;
	secure_random(bytes);
	return bytes;
}

long keyctl(int operation, long a = 0, long b = 0, long c = 0, long d = 0) {
	return syscall(SYS_keyctl, operation, a, b, c, d);
}

long find_key(const char* name) {
	return keyctl(
		KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, reinterpret_cast<long>(key_type), reinterpret_cast<long>(name), 0);
}

std::optional<UserSecret> read_key(long key) {
	UserSecret secret{.bytes = {}, .where = UserSecret::Where::keyring};
	const auto room = static_cast<long>(secret.bytes.size());
	if (keyctl(KEYCTL_READ, key, reinterpret_cast<long>(secret.bytes.data()), room) != room) return std::nullopt;
	return secret;
}

// The key is complete in the calling thread's own keyring before it moves to the user's, where it
// replaces none (KEYCTL_MOVE_EXCL).
void make_key(const char* name) {
	const Bytes bytes = random_bytes();
	const long key = syscall(SYS_add_key, key_type, name, bytes.data(), bytes.size(), KEY_SPEC_THREAD_KEYRING);
	if (key < 0) return;
	const bool moved = keyctl(KEYCTL_SETPERM, key, key_rights) == 0 &&
		keyctl(KEYCTL_MOVE, key, KEY_SPEC_THREAD_KEYRING, KEY_SPEC_USER_KEYRING, keyctl_move_exclusively) == 0;
	if (!moved) keyctl(KEYCTL_UNLINK, key, KEY_SPEC_THREAD_KEYRING);
}

class File {
public:
	explicit File(int fd) : fd_(fd) {}
	~File() {
		if (fd_ >= 0) close(fd_);
	}
	File(const File&) = delete;
	File& operator=(const File&) = delete;
	int get() const { return fd_; }

private:
	int fd_;
};

std::optional<UserSecret> read_file(int folder) {
	const File file(openat(folder, file_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
	UserSecret secret{.bytes = {}, .where = UserSecret::Where::file};
	struct stat facts;
	if (file.get() < 0 || fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_uid != geteuid() ||
		(facts.st_mode & 077) != 0 || facts.st_size != static_cast<off_t>(secret.bytes.size()))
		return std::nullopt;
	if (read(file.get(), secret.bytes.data(), secret.bytes.size()) != facts.st_size) return std::nullopt;
	return secret;
}

// The file is complete under a name of its own before it gets the common name by link(2), which
// replaces no file.
void make_file(int folder) {
	char aside[40];
	std::snprintf(
		aside, sizeof aside, ".names.%016llx", static_cast<unsigned long long>(secure_random<std::uint64_t>()));
	const Bytes bytes = random_bytes();
	{
		const File file(openat(folder, aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
		if (file.get() < 0) return;
		if (write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()))
			linkat(folder, aside, folder, file_name, 0);
	}
	unlinkat(folder, aside, 0);
}

std::optional<UserSecret> look(const std::vector<std::string>& folders, bool make) {
	for (const std::string& path : folders) {
		if (!make && access(path.c_str(), F_OK) != 0) continue;
		const File folder(open_private_folder(path));
		if (folder.get() < 0) continue;
		if (make) make_file(folder.get());
		if (auto secret = read_file(folder.get())) return secret;
	}
	return std::nullopt;
}

}  // namespace

namespace detail {

std::optional<UserSecret> find_in_keyring(const char* name) {
	const long key = find_key(name);
	return key < 0 ? std::nullopt : read_key(key);
}

std::optional<UserSecret> make_in_keyring(const char* name) {
	make_key(name);
	return find_in_keyring(name);  // this process's key, or one that was faster
}

std::optional<UserSecret> find_in_files(const std::vector<std::string>& folders) { return look(folders, false); }

std::optional<UserSecret> make_in_files(const std::vector<std::string>& folders) { return look(folders, true); }

}  // namespace detail

std::optional<UserSecret> find_user_secret() {
	constexpr const char* key_name = "verbena:names:1";  // a later version may keep another secret
	const NotCancellable whole;
	const std::vector<std::string> folders = private_folders();
	// A secret that exists comes first, wherever it is. So processes that may use keyrings agree
	// with those that may not, if the latter were first and share a folder with them.
	if (auto found = detail::find_in_keyring(key_name)) return found;
	if (auto found = detail::find_in_files(folders)) return found;
	if (auto made = detail::make_in_keyring(key_name)) return made;
	return detail::make_in_files(folders);
}

}  // namespace verbena

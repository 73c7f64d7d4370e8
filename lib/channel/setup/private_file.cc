// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/random.h"

namespace verbena::channel {
namespace {

// Returns 0 or errno.
int write_all(int fd, std::string_view text) {
	while (!text.empty()) {
		const ssize_t put = write(fd, text.data(), text.size());
		if (put < 0 && errno == EINTR) continue;
		if (put < 0) return errno;
		text.remove_prefix(static_cast<std::size_t>(put));
	}
	// Without fsync a power cut could leave an empty file under the final name.
	return fsync(fd) == 0 ? 0 : errno;
}

constexpr std::size_t secret_file_max = 64 << 10;

// Returns why the content of a file with this status is no secret, and what to do; empty: it is
// one. `name` is the noun and the path.
std::string why_not_private(const std::string& name, const struct stat& status) {
	const uid_t user = geteuid();
	const mode_t mode = status.st_mode & 07777u;
	if (status.st_uid != user && status.st_uid != 0)
		return "the " + name + " belongs to user " + std::to_string(status.st_uid) +
			", who can read and change it: give it to this user or to root (chown)";
	const bool roots = status.st_uid == 0;
	if ((mode & (roots ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO)) == 0) return {};
	char digits[8];
	std::snprintf(digits, sizeof digits, "%04o", mode);
	return "the " + name + " has mode " + digits + ", so other users may know it: make a new one, or run chmod " +
		(roots ? "640" : "600") + " on it if none of them has read it";
}

}  // namespace

std::expected<std::string, std::string> read_secret_file(const std::string& path, const std::string& noun) {
	const std::string name = noun + " " + path;
	const auto failed = [&](int error) { return std::unexpected("cannot read the " + name + ": " + strerror(error)); };
	const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
	if (fd < 0) return failed(errno);
	const struct Close {
		int fd;
		~Close() { close(fd); }
	} closing{fd};
	struct stat status{};
	if (fstat(fd, &status) != 0) return failed(errno);
	if (std::string why = why_not_private(name, status); !why.empty()) return std::unexpected(std::move(why));
	std::string text(secret_file_max + 1, '\0');
	std::size_t size = 0;
	while (size < text.size()) {
		const ssize_t got = read(fd, text.data() + size, text.size() - size);
		if (got < 0 && errno == EINTR) continue;
		if (got < 0) return failed(errno);
		if (got == 0) break;
		size += static_cast<std::size_t>(got);
	}
	if (size > secret_file_max) return std::unexpected("the " + name + " is too large for a " + noun);
	text.resize(size);
	return text;
}

std::expected<bool, std::string> write_whole(const std::string& path, const std::string& text, WriteOptions options) {
	const auto failed = [&](int error) {
		return std::unexpected("cannot write " + path + ": " + std::strerror(error));
	};
	// Writes a temporary file in the same folder and then gives it its name. link() fails if
	// another process was first.
	const std::string temporary =
		path + "." + std::to_string(getpid()) + "." + std::to_string(secure_random<std::uint64_t>());
	const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) return failed(errno);
	int error = write_all(fd, text);
	if (error == 0 && fchmod(fd, options.mode) != 0) error = errno;
	if (close(fd) != 0 && error == 0) error = errno;
	if (error == 0 &&
		(options.replace ? rename(temporary.c_str(), path.c_str()) : link(temporary.c_str(), path.c_str())) != 0)
		error = errno;
	unlink(temporary.c_str());
	if (error == EEXIST) return false;
	if (error != 0) return failed(error);
	return true;
}

}  // namespace verbena::channel

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

}  // namespace

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

// SPDX-License-Identifier: Apache-2.0
#include "base/standard_streams.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "base/without_sigpipe.h"

namespace verbena {

void open_standard_descriptors() noexcept {
	// Open for the opposite direction, so that using them is still an error.
	for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			static_cast<void>(open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));
}

void write_error(std::string_view text) noexcept {
	WithoutSigpipe guard;
	while (!text.empty()) {
		const ssize_t put = write(STDERR_FILENO, text.data(), text.size());
		if (put >= 0) {
			text.remove_prefix(static_cast<std::size_t>(put));
		} else if (errno != EINTR) {
			if (errno == EPIPE) guard.take_pending();
			return;
		}
	}
}

std::string flush_output() noexcept {
	errno = 0;
	if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return "";
	return errno == 0 ? "an earlier write has failed" : std::strerror(errno);
}

}  // namespace verbena

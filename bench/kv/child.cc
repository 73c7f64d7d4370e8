// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/child.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "bench/far_end/failure.h"
#include "lib/verbs/objects.h"

namespace verbena::kvbench {

bool send_bytes(int fd, const void* bytes, std::size_t count) {
	const auto* at = static_cast<const char*>(bytes);
	while (count > 0) {
		const ssize_t done = send(fd, at, count, MSG_NOSIGNAL);
		if (done < 0 && errno == EINTR) continue;
		if (done <= 0) return false;
		at += done;
		count -= static_cast<std::size_t>(done);
	}
	return true;
}

bool receive_bytes(int fd, void* bytes, std::size_t count) {
	auto* at = static_cast<char*>(bytes);
	while (count > 0) {
		const ssize_t done = recv(fd, at, count, 0);
		if (done < 0 && errno == EINTR) continue;
		if (done <= 0) return false;
		at += done;
		count -= static_cast<std::size_t>(done);
	}
	return true;
}

Child::Child(const std::function<void(int fd)>& work) {
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		throw bench::Failure(lib::failure("socketpair", errno));
	pid_ = fork();
	if (pid_ == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		std::signal(SIGINT, SIG_IGN);
		close(ends[0]);
		work(ends[1]);
		std::_Exit(0);
	}
	const int why = errno;
	close(ends[1]);
	fd_ = ends[0];
	if (pid_ > 0) return;
	close(fd_);
	throw bench::Failure(lib::failure("fork", why));
}

Child::~Child() {
	kill(pid_, SIGKILL);
	waitpid(pid_, nullptr, 0);
	close(fd_);
}

void Child::stop() const {
	kill(pid_, SIGSTOP);
	waitpid(pid_, nullptr, WUNTRACED);
}

}  // namespace verbena::kvbench

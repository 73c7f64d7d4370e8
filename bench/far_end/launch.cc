// SPDX-License-Identifier: Apache-2.0
#include "bench/far_end/launch.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "bench/far_end/failure.h"
#include "lib/verbs/objects.h"

namespace verbena::bench {

ChildProcess::ChildProcess(
	const std::string& program, const std::vector<std::string>& arguments, int control_fd, int page_fd) {
	std::vector<char*> argv{const_cast<char*>(program.c_str())};
	for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
	argv.push_back(nullptr);

	const pid_t parent = getpid();
	pid_ = fork();
	if (pid_ < 0) throw Failure(lib::failure("fork", errno));
	if (pid_ > 0) return;

	// Only async-signal-safe calls from here on (fork(2)). Copy the descriptors to high numbers
	// first, because they may be 3 or 4 themselves. dup2 clears CLOEXEC.
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) _exit(1);
	const int control = fcntl(control_fd, F_DUPFD_CLOEXEC, 10);
	const int page = fcntl(page_fd, F_DUPFD_CLOEXEC, 10);
	if (dup2(control, control_fd_of_child) < 0 || dup2(page, page_fd_of_child) < 0) _exit(1);
	execv(program.c_str(), argv.data());
	_exit(127);
}

ChildProcess::~ChildProcess() {
	kill(pid_, SIGKILL);
	waitpid(pid_, nullptr, 0);
}

std::string text_of_child(const std::function<std::string()>& write) {
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0) return {};
	const pid_t child = fork();
	if (child == 0) {
		const std::string text = write();
		for (std::size_t done = 0; done < text.size();) {
			const ssize_t count = ::write(ends[1], text.data() + done, text.size() - done);
			if (count <= 0) break;
			done += static_cast<std::size_t>(count);
		}
		_exit(0);
	}
	close(ends[1]);
	std::string text;
	char part[4096];
	for (ssize_t count; child > 0 && (count = read(ends[0], part, sizeof part)) > 0;)
		text.append(part, static_cast<std::size_t>(count));
	close(ends[0]);
	if (child > 0) waitpid(child, nullptr, 0);
	return text;
}

std::optional<std::pair<int, int>> two_cores() {
	cpu_set_t allowed;
	if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return std::nullopt;
	int first = -1;
	for (int core = 0; core < CPU_SETSIZE; ++core) {
		if (!CPU_ISSET(core, &allowed)) continue;
		if (first >= 0) return std::pair(first, core);
		first = core;
	}
	return std::nullopt;
}

void pin_to(int core) {
	cpu_set_t only;
	CPU_ZERO(&only);
	CPU_SET(core, &only);
	sched_setaffinity(0, sizeof only, &only);
}

std::string own_executable() {
	char path[4096];
	const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
	if (n <= 0) throw Failure(lib::failure("/proc/self/exe", errno));
	return std::string(path, static_cast<std::size_t>(n));
}

}  // namespace verbena::bench

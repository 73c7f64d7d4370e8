// SPDX-License-Identifier: Apache-2.0
#include "tools/child.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "tools/commands.h"

namespace verbena::tools {
namespace {

volatile std::sig_atomic_t child = 0;
void pass_on(int signal) {
	if (child != 0) kill(child, signal);
}

// Starts the program; returns only in this process.
pid_t start(std::vector<char*>& argv) {
	const pid_t parent = getpid();
	const pid_t pid = fork();
	if (pid != 0) return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) _exit(failed);
	execvp(argv[0], argv.data());
	const int error = errno;
	complain(fmt::format("cannot run {}: {}", argv[0], std::strerror(error)));
	_exit(cannot_run);
}

}  // namespace

std::expected<int, int> run_child(const std::vector<std::string>& command) {
	std::vector<char*> argv;
	for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
	argv.push_back(nullptr);
	const pid_t pid = start(argv);
	if (pid < 0) return std::unexpected(errno);
	child = pid;
	for (const int signal : {SIGINT, SIGQUIT}) std::signal(signal, SIG_IGN);
	for (const int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) std::signal(signal, pass_on);
	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
	child = 0;
	return status;
}

int end_as(int status) {
	if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
	const rlimit no_core{0, 0};
	setrlimit(RLIMIT_CORE, &no_core);
	std::signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	constexpr int signaled = 128;  // as shells count, if the signal did not end this process
	return signaled + WTERMSIG(status);
}

}  // namespace verbena::tools

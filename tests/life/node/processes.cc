// SPDX-License-Identifier: Apache-2.0
// The commands of signals and processes.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include "commands.h"

namespace {

void exit_with_42(int) { _exit(42); }

bool obey_signals(const std::string& word, std::istream& in) {
	if (word != "handle") return false;
	const auto name = next<std::string>(in);
	void* const function = dlsym(RTLD_DEFAULT, name.c_str());
	if (!function) throw Failure{ENOENT};
	sigset_t every;
	sigfillset(&every);
	for (const int number : {SIGSEGV, SIGBUS}) {
		if (name.ends_with("sigaction")) {
			struct sigaction action{};
			action.sa_handler = exit_with_42;
			demand(reinterpret_cast<decltype(&sigaction)>(function)(number, &action, nullptr));
		} else if (name.ends_with("mask") && name != "sigsetmask") {
			demand(reinterpret_cast<decltype(&sigprocmask)>(function)(SIG_SETMASK, &every, nullptr));
		} else if (name == "sigblock" || name == "sigsetmask") {
			reinterpret_cast<int (*)(int)>(function)(~0);
		} else if (name == "sighold" || name == "sigignore") {
			demand(reinterpret_cast<int (*)(int)>(function)(number));
		} else {
			reinterpret_cast<sighandler_t (*)(int, sighandler_t)>(function)(number, exit_with_42);
		}
	}
	return true;
}

bool obey_fork(const std::string& word, std::istream& in, std::ostream& out) {
	if (word != "fork") return false;
	const auto fd = next<int>(in);
	const pid_t child = fork();
	if (child < 0) throw Failure{errno};
	if (child == 0) {
		dup2(fd, STDIN_FILENO);
		dup2(fd, STDOUT_FILENO);
	}
	close(fd);
	out << ' ' << child;
	return true;
}

}  // namespace

bool obey_process(const std::string& word, std::istream& in, std::ostream& out) {
	return obey_signals(word, in) || obey_fork(word, in, out);
}

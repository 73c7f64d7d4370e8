// SPDX-License-Identifier: Apache-2.0
#include "tools/trial.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "tools/commands.h"

namespace verbena::tools {
namespace {

// A server that does not end by itself after its client gets this long, and again after SIGTERM.
constexpr Nanoseconds server_patience = 2'000'000'000;
constexpr Nanoseconds listening_pause = 5'000'000;
constexpr Nanoseconds stop_pause = 50'000'000;
constexpr off_t output_bytes_max = 2048;

[[noreturn]] void give_up(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

// A process group that prints into a file of its own.
class Started {
public:
	Started(const std::vector<std::string>& options, const std::vector<std::string>& program)
		: output_(memfd_create("output", MFD_CLOEXEC)) {
		if (!output_) give_up("memfd_create");
		std::vector<std::string> words{"verbena", "run"};
		words.insert(words.end(), options.begin(), options.end());
		words.emplace_back("--");
		words.insert(words.end(), program.begin(), program.end());
		std::vector<char*> argv;
		for (std::string& word : words) argv.push_back(word.data());
		argv.push_back(nullptr);
		const pid_t parent = getpid();
		pid_ = fork();
		if (pid_ < 0) give_up("fork");
		if (pid_ == 0) {
			setpgid(0, 0);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent) _exit(failed);
			const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
			if (input < 0) _exit(failed);
			dup2(input, STDIN_FILENO);
			dup2(output_.get(), STDOUT_FILENO);
			dup2(output_.get(), STDERR_FILENO);
			execv("/proc/self/exe", argv.data());
			_exit(cannot_run);
		}
		setpgid(pid_, pid_);
		pidfd_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
		if (!pidfd_) give_up("pidfd_open");
	}
	~Started() {
		if (!status_) kill(-pid_, SIGKILL);
		wait_until(never);
		kill(-pid_, SIGKILL);  // processes that it has left behind
	}
	Started(const Started&) = delete;
	Started& operator=(const Started&) = delete;

	// False: it has not ended by then.
	bool wait_until(Nanoseconds deadline) {
		while (!status_) {
			const Nanoseconds now = monotonic_now();
			pollfd ended{pidfd_.get(), POLLIN, 0};
			const timespec limit = to_timespec(deadline > now ? deadline - now : 0);
			const int ready = ppoll(&ended, 1, deadline == never ? nullptr : &limit, nullptr);
			if (ready == 0) return false;
			int status = 0;
			if (ready > 0 && waitpid(pid_, &status, 0) == pid_) status_ = status;
		}
		return true;
	}
	void signal(int number) const { kill(-pid_, number); }
	bool has_ended() const { return status_.has_value(); }

	// The failure of a process that has ended; empty: there is none.
	std::string failure() const {
		if (WIFSIGNALED(*status_))
			return fmt::format("signal {} ({})", WTERMSIG(*status_), strsignal(WTERMSIG(*status_)));
		return WEXITSTATUS(*status_) == 0 ? "" : fmt::format("exit status {}", WEXITSTATUS(*status_));
	}
	std::string output() const {
		const off_t size = lseek(output_.get(), 0, SEEK_END);
		std::string bytes(static_cast<std::size_t>(std::min(size, output_bytes_max)), '\0');
		const ssize_t got =
			pread(output_.get(), bytes.data(), bytes.size(), std::max<off_t>(0, size - output_bytes_max));
		bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
		return bytes;
	}

	// Whether the process listens on a TCP port.
	bool listens() const {
		std::set<std::string> listening;
		for (const char* const name : {"tcp", "tcp6"}) {
			std::ifstream table(fmt::format("/proc/{}/net/{}", pid_, name));
			for (std::string line; std::getline(table, line);) {
				std::istringstream fields(line);
				std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
				fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >>
					inode;
				if (state == "0A") listening.insert("socket:[" + inode + "]");
			}
		}
		std::error_code gone;
		for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid_), gone))
			if (listening.contains(std::filesystem::read_symlink(entry, gone).string())) return true;
		return false;
	}

private:
	Descriptor output_, pidfd_;
	pid_t pid_ = 0;
	std::optional<int> status_;  // as waitpid(2) gives it
};

// Returns the failure of a server whose client has ended.
std::string end_server(Started& server) {
	if (server.wait_until(monotonic_now() + server_patience)) return server.failure();
	server.signal(SIGTERM);
	if (!server.wait_until(monotonic_now() + server_patience)) server.signal(SIGKILL);
	return "";
}

void throw_if_stopped(const Trial& trial) {
	if (trial.stop && trial.stop()) throw TrialStopped{};
}

// False: the program has not ended by the deadline.
bool wait_for(Started& program, Nanoseconds deadline, const Trial& trial) {
	while (!program.wait_until(std::min(deadline, monotonic_now() + stop_pause))) {
		throw_if_stopped(trial);
		if (monotonic_now() >= deadline) return false;
	}
	throw_if_stopped(trial);  // the program may have ended because of the same Ctrl-C
	return true;
}

}  // namespace

Verdict run_trial(const Trial& trial) {
	throw_if_stopped(trial);
	const Nanoseconds begin = monotonic_now();
	std::optional<Started> server;
	if (!trial.server.empty()) {
		server.emplace(trial.options, std::vector<std::string>{"sh", "-c", "exec " + trial.server});
		const Nanoseconds give_up_at = begin + trial.server_wait;
		while (!server->listens() && monotonic_now() < give_up_at)
			if (server->wait_until(std::min(give_up_at, monotonic_now() + listening_pause))) break;
	}
	Started program(trial.options, trial.program);
	Verdict verdict;
	if (wait_for(program, begin + trial.limit, trial)) verdict.failure = program.failure();
	else verdict.failure = fmt::format("not done after {:g} s", static_cast<double>(trial.limit) * 1e-9);
	verdict.took = monotonic_now() - begin;
	verdict.output = program.output();
	if (server) {
		const std::string failure = end_server(*server);
		if (verdict.failure.empty() && !failure.empty()) verdict.failure = "server: " + failure;
		verdict.output = server->output() + verdict.output;
	}
	return verdict;
}

}  // namespace verbena::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/stage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "base/descriptor.h"

namespace verbena::tools {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

[[noreturn]] void work_and_end(int pipe, pid_t parent, const std::function<void(const Show&)>& work) {
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) _exit(1);
	int status = 0;
	try {
		work([&](const Json& json) {
			const std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
			for (std::string_view rest = line; !rest.empty();) {
				const ssize_t wrote = write(pipe, rest.data(), rest.size());
				if (wrote <= 0) _exit(1);
				rest.remove_prefix(static_cast<std::size_t>(wrote));
			}
		});
	} catch (...) {
		status = 1;
	}
	_exit(status);
}

// Passes each whole line to `show`; false if the pipe did not end before the deadline.
bool read_lines(int pipe, Clock::time_point deadline, const Show& show) {
	std::string buffer;
	while (true) {
		const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
		pollfd ready{.fd = pipe, .events = POLLIN, .revents = 0};
		if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) == 0) return false;
		char bytes[4096];
		const ssize_t got = read(pipe, bytes, sizeof bytes);
		if (got < 0 && errno == EINTR) continue;
		if (got <= 0) return true;
		buffer.append(bytes, static_cast<std::size_t>(got));
		for (std::size_t end; (end = buffer.find('\n')) != buffer.npos; buffer.erase(0, end + 1))
			show(Json::parse(std::string_view(buffer).substr(0, end)));
	}
}

}  // namespace

std::optional<std::string> run_stage(
	Clock::time_point deadline, const std::function<void(const Show&)>& work, const Show& show) {
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0) return fmt::format("pipe: {}", std::strerror(errno));
	const Descriptor out(ends[0]);
	const pid_t parent = getpid();
	const pid_t child = [&] {
		const Descriptor in(ends[1]);
		const pid_t made = fork();
		if (made == 0) work_and_end(in.get(), parent, work);
		return made;
	}();
	if (child < 0) return fmt::format("fork: {}", std::strerror(errno));
	const bool ended = read_lines(out.get(), deadline, show);
	if (!ended) kill(child, SIGKILL);
	int status = 0;
	waitpid(child, &status, 0);
	if (!ended) return "not done in time: it hangs, or this machine is very slow";
	if (WIFSIGNALED(status))
		return fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status) != 0) return fmt::format("ended with status {}", WEXITSTATUS(status));
	return std::nullopt;
}

}  // namespace verbena::tools

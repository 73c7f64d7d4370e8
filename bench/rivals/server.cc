// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "base/sizes.h"
#include "base/time.h"

namespace verbena::bench {
namespace {

constexpr Nanoseconds start_patience = 10'000'000'000;
constexpr unsigned look_us = 10'000;  // between two attempts to connect

sockaddr_in local_address(std::uint16_t port) {
	return {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
}

// 0 if there is none.
std::uint16_t free_port() {
	const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sockaddr_in address = local_address(0);
	socklen_t length = sizeof address;
	const bool found = fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
		getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
	if (fd >= 0) close(fd);
	return found ? ntohs(address.sin_port) : 0;
}

[[noreturn]] void execute(std::vector<std::string>& command) {
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	std::signal(SIGINT, SIG_IGN);  // the parent handles Ctrl-C
	if (const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0) {
		dup2(nowhere, STDOUT_FILENO);
		dup2(nowhere, STDERR_FILENO);
	}
	std::vector<char*> words;
	for (std::string& word : command) words.push_back(word.data());
	words.push_back(nullptr);
	execvp(words.front(), words.data());
	std::_Exit(127);
}

}  // namespace

RivalServer::RivalServer(std::string name) : name_(std::move(name)), port_(free_port()) {
	std::string folder = "/tmp/verbena-" + name_ + "-XXXXXX";
	if (mkdtemp(folder.data()) != nullptr) folder_ = folder;
}

RivalServer::~RivalServer() {
	if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
	if (folder_.empty()) return;
	unlink(socket().c_str());
	rmdir(folder_.c_str());
}

std::expected<void, std::string> RivalServer::start(std::vector<std::string> command, At at) {
	pid_ = fork();
	if (pid_ == 0) execute(command);
	for (const Nanoseconds deadline = monotonic_now() + start_patience; monotonic_now() < deadline; usleep(look_us)) {
		if (const int fd = connect(at); fd >= 0) {
			close(fd);
			return {};
		}
		if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0) continue;
		pid_ = 0;
		break;
	}
	return std::unexpected(fmt::format("{} did not start", name_));
}

int RivalServer::connect(At at) const {
	sockaddr_un by_name{.sun_family = AF_UNIX, .sun_path = {}};
	socket().copy(by_name.sun_path, sizeof by_name.sun_path - 1);
	const sockaddr_in by_port = local_address(port_);
	const bool is_unix = at == At::unix_socket;
	const int fd = ::socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const auto* const where =
		is_unix ? reinterpret_cast<const sockaddr*>(&by_name) : reinterpret_cast<const sockaddr*>(&by_port);
	if (fd >= 0 && ::connect(fd, where, is_unix ? sizeof by_name : sizeof by_port) == 0) {
		const int on = 1;
		if (!is_unix) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		return fd;
	}
	if (fd >= 0) close(fd);
	return -1;
}

bool is_on_path(std::string_view program) {
	const char* const path = std::getenv("PATH");
	for (const std::string_view folder : split(path != nullptr ? path : "", ':'))
		if (access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0) return true;
	return false;
}

}  // namespace verbena::bench

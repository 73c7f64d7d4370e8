// SPDX-License-Identifier: Apache-2.0
#include "bench/far_end/control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

namespace verbena::bench {
namespace {

constexpr std::size_t line_max = 64 * 1024;
using Clock = std::chrono::steady_clock;

void no_delay(int fd) {
	const int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

std::string version_mismatch(int theirs, int ours) {
	return fmt::format(
		"the other process speaks version {} of the protocol, this one version {}: use the same release at both ends",
		theirs, ours);
}

std::string bad_field(const Message& message, const char* name) {
	return fmt::format(
		"the message '{}' of the other process has no valid field '{}'", message.at("type").get<std::string>(), name);
}

std::string wrong_answer(const Message& message, std::string_view expected) {
	return fmt::format(
		"the other process answered '{}' instead of '{}'", message.at("type").get<std::string>(), expected);
}

bool is_hello(const Message& message, std::string_view protocol) {
	const auto named = message.find("protocol");
	return message["type"] == "hello" && named != message.end() && *named == protocol;
}

Control::~Control() { close(fd_); }

void Control::send(const Message& message) {
	const std::string line = message.dump() + '\n';
	for (std::size_t sent = 0; sent < line.size();) {
		const ssize_t n = ::send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
		if (n >= 0) sent += static_cast<std::size_t>(n);
		else if (errno != EINTR) throw PeerLost(peer_ended);
	}
}

std::optional<Message> Control::take_line() {
	const auto end = buffer_.find('\n');
	if (end == buffer_.npos) {
		if (buffer_.size() > line_max) throw PeerLost(other_protocol);
		return std::nullopt;
	}
	Message message = Message::parse(std::string_view(buffer_).substr(0, end), nullptr, false);
	buffer_.erase(0, end + 1);
	if (!message.is_object() || !message.contains("type") || !message["type"].is_string())
		throw PeerLost(other_protocol);
	return message;
}

bool Control::fill(int wait_ms) {
	pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
	if (poll(&ready, 1, wait_ms) <= 0) return false;
	char bytes[4096];
	const ssize_t n = recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
	if (n <= 0) throw PeerLost(peer_ended);
	buffer_.append(bytes, static_cast<std::size_t>(n));
	return true;
}

std::optional<Message> Control::try_receive() {
	if (auto line = take_line()) return line;
	if (!fill(0)) return std::nullopt;
	return take_line();
}

Message Control::receive(std::chrono::milliseconds patience) {
	const auto deadline = Clock::now() + patience;
	while (true) {
		if (auto line = take_line()) return std::move(*line);
		const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
		if (left < 0) throw Failure("the other process did not answer in time");
		fill(static_cast<int>(std::min<long long>(left + 1, 1000)));
	}
}

int listen_on(std::uint16_t port) {
	const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0) throw Failure(fmt::format("socket: {}", std::strerror(errno)));
	const int on = 1, off = 0;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
	sockaddr_in6 address{.sin6_family = AF_INET6, .sin6_port = htons(port)};
	if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(fd, 8) != 0) {
		const int error = errno;
		close(fd);
		if (error == EADDRINUSE)
			throw Failure(fmt::format("port {} is in use: another server listens there; choose another port", port));
		throw Failure(fmt::format("cannot listen at port {}: {}", port, std::strerror(error)));
	}
	return fd;
}

std::uint16_t port_of(int listener) {
	sockaddr_in6 address{};
	socklen_t size = sizeof address;
	getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
	return ntohs(address.sin6_port);
}

int accept_one(int listener) {
	const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
	if (fd < 0) throw Failure(fmt::format("accept: {}", std::strerror(errno)));
	no_delay(fd);
	return fd;
}

int connect_to(std::string_view peer, std::uint16_t default_port, std::chrono::milliseconds patience) {
	std::string host(peer), port = std::to_string(default_port);
	if (host.starts_with('[')) {
		const auto end = host.find(']');
		if (end == host.npos) throw Failure(fmt::format("'{}' is not HOST[:PORT] or [IPv6 address]:PORT", peer));
		if (end + 1 < host.size() && host[end + 1] == ':') port = host.substr(end + 2);
		host = host.substr(1, end - 1);
	} else if (const auto colon = host.find(':'); colon != host.npos && host.find(':', colon + 1) == host.npos) {
		port = host.substr(colon + 1);
		host.resize(colon);
	}

	const addrinfo hints{.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	addrinfo* found = nullptr;
	if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
		throw Failure(fmt::format("cannot resolve {}: {}", peer, gai_strerror(error)));
	const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);

	const auto deadline = Clock::now() + patience;
	int error = 0;
	while (true) {
		for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
			const int fd = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
			if (fd < 0) continue;
			if (connect(fd, each->ai_addr, each->ai_addrlen) == 0) {
				no_delay(fd);
				return fd;
			}
			error = errno;
			close(fd);
		}
		if (Clock::now() >= deadline && error == ECONNREFUSED)
			throw Failure(fmt::format("no server listens at {}:{}: start the server there first", host, port));
		if (Clock::now() >= deadline)
			throw Failure(fmt::format("cannot reach {}:{}: {}", host, port, std::strerror(error)));
		std::this_thread::sleep_for(std::chrono::milliseconds(100));
	}
}

}  // namespace verbena::bench

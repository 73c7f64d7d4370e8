// SPDX-License-Identifier: Apache-2.0
#include "lib/async/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

namespace verbena::async {
namespace {

using namespace std::string_literals;

std::unexpected<std::string> failure(const std::string& what, int error) {
	return std::unexpected(what + ": " + std::strerror(error));
}

void set(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

void no_delay(int fd) {
	const int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

std::uint16_t Address::port() const {
	if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
	return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

std::expected<Host, std::string> split_host(const std::string& text, std::uint16_t port) {
	std::string_view host = text, number;
	if (text.starts_with('[')) {
		const std::size_t end = text.find(']');
		if (end == std::string::npos) return std::unexpected("'" + text + "' has no closing ']'");
		host = std::string_view(text).substr(1, end - 1);
		const std::string_view behind = std::string_view(text).substr(end + 1);
		if (!behind.empty() && (behind.front() != ':' || behind.size() == 1))
			return std::unexpected("'" + text + "' must end with ']' or with ']:' and a port");
		if (!behind.empty()) number = behind.substr(1);
	} else if (const std::size_t colon = text.find(':');
		colon != std::string::npos && text.find(':', colon + 1) == std::string::npos) {
		host = std::string_view(text).substr(0, colon);
		number = std::string_view(text).substr(colon + 1);
		if (number.empty()) return std::unexpected("'" + text + "' has no port after its colon");
	}
	if (!number.empty()) {
		const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), port);
		if (error != std::errc{} || end != number.data() + number.size())
			return std::unexpected("'" + std::string(number) + "' is not a port, 0 to 65535");
	}
	return Host{.host = std::string(host), .port = port};
}

std::expected<Address, std::string> resolve(const std::string& text, std::uint16_t default_port) {
	const auto split = split_host(text, default_port);
	if (!split) return std::unexpected(split.error());
	const auto& [host, port] = *split;
	addrinfo* found = nullptr;
	const addrinfo wanted{.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
	if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found); error != 0)
		return std::unexpected("'" + host + "': " + gai_strerror(error));
	Address address;
	std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
	address.length = found->ai_addrlen;
	freeaddrinfo(found);
	return address;
}

bool is_loopback(const Address& address) {
	if (address.family() == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr);
	return ntohl(reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool is_wildcard(const Address& address) {
	if (address.family() == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr);
	return reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr.s_addr == INADDR_ANY;
}

std::string to_string(const Address& address) {
	char text[INET6_ADDRSTRLEN] = "?";
	if (address.family() == AF_INET6) {
		inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr, text, sizeof text);
		return "["s + text + "]:" + std::to_string(address.port());
	}
	inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr, text, sizeof text);
	return text + ":"s + std::to_string(address.port());
}

Task<Result<Socket>> connect(Loop& loop, Address to, Nanoseconds deadline, const Address* from, int* reason) {
	const auto because = [reason](int error) {
		if (reason != nullptr) *reason = error;
		return error;
	};
	const int fd = socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) co_return failure("socket", because(errno));
	auto socket = std::make_unique<Descriptor>(loop, fd);
	no_delay(fd);
	if (from != nullptr) {
		// Lets connect() choose the port: then a port is taken for one peer and not for all, so one
		// address can have more connections than ports.
		const int on = 1;
		setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
		if (bind(fd, from->get(), from->length) != 0)
			co_return failure("cannot connect from " + to_string(*from), because(errno));
	}
	socket->writable = false;  // until the kernel reports it
	int error = ::connect(fd, to.get(), to.length) == 0 ? 0 : errno;
	if (error == EINPROGRESS) {
		if (!co_await Wait(*socket, Wait::For::writing, deadline)) {
			because(ETIMEDOUT);
			co_return std::unexpected(to_string(to) + " does not answer in time");
		}
		socklen_t size = sizeof error;
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	}
	because(error);
	if (error == ECONNREFUSED)
		co_return std::unexpected("no server listens at " + to_string(to) + ": start the server there first");
	if (error != 0) co_return failure("cannot connect to " + to_string(to), error);
	socket->writable = true;
	co_return std::move(socket);
}

Result<Socket> listen(Loop& loop, const Address& where, int backlog) {
	const int fd = socket(where.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) return failure("socket", errno);
	auto socket = std::make_unique<Descriptor>(loop, fd);
	const int on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, where.get(), where.length) != 0) {
		if (errno == EADDRINUSE)
			return std::unexpected(to_string(where) + " is in use: another server listens there; choose another port");
		return failure("cannot listen at " + to_string(where), errno);
	}
	if (::listen(fd, backlog) != 0) {
		if (errno == EADDRINUSE)
			return std::unexpected(to_string(where) + " is in use: another server listens there; choose another port");
		return failure("listen", errno);
	}
	return socket;
}

Address local_address(const Descriptor& socket) {
	Address address;
	address.length = sizeof address.storage;
	getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address.storage), &address.length);
	return address;
}

Task<Result<Socket>> accept(Descriptor& listener, Address* peer) {
	while (true) {
		Address from;
		from.length = sizeof from.storage;
		const int fd = accept4(
			listener.fd(), reinterpret_cast<sockaddr*>(&from.storage), &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			if (peer != nullptr) *peer = from;
			no_delay(fd);
			auto socket = std::make_unique<Descriptor>(listener.loop(), fd);
			// Saves a read: the kernel reports in the next turn whether data is there.
			socket->readable = false;
			co_return std::move(socket);
		}
		if (errno == EAGAIN) {
			listener.readable = false;
			co_await Wait(listener, Wait::For::reading, never);
		} else if (errno != ECONNABORTED && errno != EINTR && errno != EPROTO) {
			co_return failure("accept", errno);
		}
	}
}

void keep_alive(const Descriptor& socket, Nanoseconds dead_after) {
	constexpr int probes = 4;
	const int seconds = std::max(2, static_cast<int>(dead_after / 1'000'000'000));
	const int between = std::max(1, seconds / (2 * probes));
	set(socket.fd(), SOL_SOCKET, SO_KEEPALIVE, 1);
	set(socket.fd(), IPPROTO_TCP, TCP_KEEPCNT, probes);
	set(socket.fd(), IPPROTO_TCP, TCP_KEEPINTVL, between);
	set(socket.fd(), IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds - probes * between));
}

ssize_t try_read(Descriptor& socket, std::span<std::byte> into) {
	const ssize_t got = ::recv(socket.fd(), into.data(), into.size(), 0);
	if (got >= 0) return got;
	if (errno == EAGAIN) socket.readable = false;
	return -errno;
}

ssize_t try_write(Descriptor& socket, std::span<const std::byte> bytes) {
	const iovec piece{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
	return try_write(socket, std::span(&piece, 1));
}

ssize_t try_write(Descriptor& socket, std::span<const iovec> pieces) {
	const msghdr message{.msg_iov = const_cast<iovec*>(pieces.data()), .msg_iovlen = pieces.size()};
	const ssize_t put = ::sendmsg(socket.fd(), &message, MSG_NOSIGNAL);
	if (put >= 0) return put;
	if (errno == EAGAIN) socket.writable = false;
	return -errno;
}

Task<Result<std::size_t>> read_some(Descriptor& socket, std::span<std::byte> into, Nanoseconds deadline) {
	while (true) {
		const ssize_t got = try_read(socket, into);
		if (got >= 0) co_return static_cast<std::size_t>(got);
		if (got == -EAGAIN) {
			if (!co_await Wait(socket, Wait::For::reading, deadline))
				co_return std::unexpected("the peer sent nothing in time"s);
		} else if (got != -EINTR) {
			co_return failure("the connection broke", static_cast<int>(-got));
		}
	}
}

Task<Result<void>> write_all(Descriptor& socket, std::span<const std::byte> bytes, Nanoseconds deadline) {
	while (!bytes.empty()) {
		const ssize_t put = try_write(socket, bytes);
		if (put >= 0) {
			bytes = bytes.subspan(static_cast<std::size_t>(put));
		} else if (put == -EAGAIN) {
			if (!co_await Wait(socket, Wait::For::writing, deadline))
				co_return std::unexpected("the peer did not take the data in time"s);
		} else if (put != -EINTR) {
			co_return failure("the connection broke", static_cast<int>(-put));
		}
	}
	co_return Result<void>{};
}

}  // namespace verbena::async

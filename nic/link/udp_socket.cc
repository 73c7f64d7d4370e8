// SPDX-License-Identifier: Apache-2.0
#include "nic/link/udp_socket.h"

#include <cerrno>
#include <cstring>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace verbena::link {
namespace {

struct Option {
	int level, name, value;
};

// Sets options until one fails. Then closes the socket and returns -1 with that errno.
template <std::size_t count> int with_options(int fd, const Option (&options)[count]) {
	if (fd < 0) return -1;
	for (const Option& option : options) {
		if (set(fd, option.level, option.name, option.value) == 0) continue;
		const int error = errno;
		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

int open_socket(Family family) { return socket(native(family), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

}  // namespace

int set(int fd, int level, int option, int value) { return setsockopt(fd, level, option, &value, sizeof value); }

socklen_t to_address(SocketAddress& address, Family family, const wire::Gid& gid, std::uint16_t port) {
	address.any.sa_family = static_cast<sa_family_t>(native(family));
	if (family == Family::ipv4) {
		address.ipv4.sin_port = htons(port);
		std::memcpy(&address.ipv4.sin_addr, &gid[12], 4);
		return sizeof address.ipv4;
	}
	address.ipv6.sin6_port = htons(port);
	std::memcpy(&address.ipv6.sin6_addr, gid.data(), 16);
	return sizeof address.ipv6;
}

int bind_to(int fd, Family family, const wire::Gid& own, std::uint16_t port, std::uint16_t& bound) {
	SocketAddress address{};
	socklen_t size = to_address(address, family, own, port);
	if (bind(fd, &address.any, size) != 0 || getsockname(fd, &address.any, &size) != 0) return -1;
	bound = ntohs(family == Family::ipv4 ? address.ipv4.sin_port : address.ipv6.sin6_port);
	return 0;
}

int watch(int epoll, int fd, void* owner, std::uint32_t events) {
	epoll_event event{.events = events, .data = {.ptr = owner}};
	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

int open_receiver(Family family, int buffer_bytes) {
	constexpr Option ipv4[] = {{SOL_SOCKET, SO_REUSEPORT, 1}, {SOL_SOCKET, SO_RXQ_OVFL, 1}, {IPPROTO_IP, IP_PKTINFO, 1},
		{IPPROTO_IP, IP_RECVTOS, 1}, {IPPROTO_IP, IP_RECVTTL, 1}};
	constexpr Option ipv6[] = {{SOL_SOCKET, SO_REUSEPORT, 1}, {SOL_SOCKET, SO_RXQ_OVFL, 1},
		{IPPROTO_IPV6, IPV6_V6ONLY, 1}, {IPPROTO_IPV6, IPV6_RECVPKTINFO, 1}, {IPPROTO_IPV6, IPV6_RECVTCLASS, 1},
		{IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1},
		// Soft-RoCE sends IPv6 without a UDP checksum; the ICRC protects the packet anyway.
		{SOL_UDP, UDP_NO_CHECK6_RX, 1}};
	const int made = open_socket(family);
	const int fd = family == Family::ipv4 ? with_options(made, ipv4) : with_options(made, ipv6);
	if (fd < 0) return -1;
	set(fd, SOL_UDP, UDP_GRO, 1);  // may fail before Linux 5.0: datagrams then arrive one by one
	set(fd, SOL_SOCKET, SO_RCVBUF, buffer_bytes);
	return fd;
}

int open_sender(Family family) {
	if (family == Family::ipv4)
		return with_options(open_socket(family), {{IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO}});
	return with_options(open_socket(family),
		{{IPPROTO_IPV6, IPV6_V6ONLY, 1}, {IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO},
			{IPPROTO_IPV6, IPV6_DONTFRAG, 1}});
}

}  // namespace verbena::link

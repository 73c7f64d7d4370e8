// SPDX-License-Identifier: Apache-2.0
// RDMA netlink: socket(2) for NETLINK_RDMA is interposed, and the program gets a netlink socket of
// the protocol that is for messages between processes. Receiving, polling and closing it need no
// help. The library that made the socket has its calls of send redirected (got.h), so that a
// message to the kernel is answered here (nldev.h); the answers arrive from another such socket.
//
// The sockets of other protocols, and the sends of other libraries, are never looked at.
//
// Threads: any.
// Errors: if the kernel has no such sockets, socket() fails as without us.
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "nic/presence/got.h"
#include "nic/presence/kernel_nldev.h"
#include "nic/presence/libc.h"
#include "nic/presence/nldev.h"
#include "nic/presence/presence.h"

namespace presence = verbena::presence;
namespace libc = verbena::presence::libc;

namespace {

// Marks our sockets, also their duplicates: an option that has no effect on netlink.
constexpr int mark_option = SO_RCVLOWAT;
constexpr int mark = 0x564552;

bool is_ours(int fd) {
	const int saved_errno = errno;
	int value = 0, protocol = 0;
	socklen_t length = sizeof value;
	const bool marked = getsockopt(fd, SOL_SOCKET, mark_option, &value, &length) == 0 && value == mark;
	length = sizeof protocol;
	const bool netlink =
		marked && getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 && protocol == NETLINK_USERSOCK;
	errno = saved_errno;
	return netlink;
}

// The netlink port of a socket, which gets one now if it has none; 0 on failure.
std::uint32_t port_of(int fd) {
	sockaddr_nl address{};
	socklen_t length = sizeof address;
	if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
	if (address.nl_pid != 0) return address.nl_pid;
	address = {.nl_family = AF_NETLINK};
	if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return 0;
	length = sizeof address;
	return getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0 ? address.nl_pid : 0;
}

int answer(int fd, std::span<const std::byte> requests) {
	const presence::Source* source = presence::installed();
	const std::uint32_t port = port_of(fd);
	if (!source || port == 0) return ENOBUFS;
	const auto datagrams =
		presence::merge_with_kernel(requests, presence::answer(requests, source->devices(), port), port);
	const int sender = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
	if (sender < 0) return errno;
	const sockaddr_nl to{.nl_family = AF_NETLINK, .nl_pid = port};
	int error = 0;
	for (const presence::Datagram& datagram : datagrams)
		if (sendto(sender, datagram.data(), datagram.size(), MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&to),
				sizeof to) < 0)
			error = ENOBUFS;  // as in the kernel: the program's receive buffer is full
	close(sender);
	return error;
}

ssize_t serve(int fd, std::span<const std::byte> requests) noexcept {
	const presence::Unseen unseen;
	const int saved_errno = errno;
	int error;
	try {
		error = answer(fd, requests);
	} catch (...) {
		error = ENOMEM;
	}
	errno = saved_errno;
	if (error)
		verbena::log::refuse(error, "RDMA netlink (rdma link): a request was not answered: %s", std::strerror(error));
	return error ? -1 : static_cast<ssize_t>(requests.size());
}

std::span<const std::byte> bytes(const void* data, std::size_t size) {
	return {static_cast<const std::byte*>(data), size};
}

ssize_t redirected_sendto(int fd, const void* data, std::size_t size, int flags, const sockaddr* to, socklen_t length) {
	return is_ours(fd) ? serve(fd, bytes(data, size)) : ::sendto(fd, data, size, flags, to, length);
}

ssize_t redirected_send(int fd, const void* data, std::size_t size, int flags) {
	return is_ours(fd) ? serve(fd, bytes(data, size)) : ::send(fd, data, size, flags);
}

ssize_t redirected_write(int fd, const void* data, std::size_t size) {
	return is_ours(fd) ? serve(fd, bytes(data, size)) : ::write(fd, data, size);
}

ssize_t redirected_sendmsg(int fd, const msghdr* message, int flags) {
	if (!is_ours(fd)) return ::sendmsg(fd, message, flags);
	try {
		presence::Datagram whole;
		for (std::size_t i = 0; i < message->msg_iovlen; ++i) {
			const auto part = bytes(message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
			whole.insert(whole.end(), part.begin(), part.end());
		}
		return serve(fd, whole);
	} catch (...) {
		return verbena::log::refuse(ENOMEM, "RDMA netlink (rdma link): no memory for a request"), -1;
	}
}

const presence::Redirection redirections[] = {
	{"sendto", reinterpret_cast<void*>(redirected_sendto)},
	{"send", reinterpret_cast<void*>(redirected_send)},
	{"write", reinterpret_cast<void*>(redirected_write)},
	{"sendmsg", reinterpret_cast<void*>(redirected_sendmsg)},
};

int open_socket(int type, const void* caller) {
	const link_map* object = presence::object_of(caller);
	if (!object) return libc::socket(AF_NETLINK, type, NETLINK_RDMA);
	const int fd = libc::socket(AF_NETLINK, type, NETLINK_USERSOCK);
	if (fd < 0) return -1;
	if (setsockopt(fd, SOL_SOCKET, mark_option, &mark, sizeof mark) != 0) {
		const int error = errno;
		close(fd);
		return errno = error, -1;
	}
	presence::redirect(*object, redirections);
	return fd;
}

}  // namespace

// The real libibverbs lists the kernel's devices by this protocol (Unseen).
VERBENA_INTERPOSE(int, socket, int domain, int type, int protocol) {
	if (protocol == NETLINK_RDMA && domain == AF_NETLINK && presence::installed() && !presence::Unseen::here())
		[[unlikely]]
		return open_socket(type, __builtin_return_address(0));
	return libc::socket(domain, type, protocol);
}

// SPDX-License-Identifier: Apache-2.0
#include "nic/link/icmp_errors.h"

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace verbena::link {
namespace {

wire::Gid gid_of(const sockaddr_storage& address) {
	wire::Gid gid{};
	if (address.ss_family == AF_INET) {
		gid[10] = gid[11] = 0xff;
		std::memcpy(&gid[12], &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
	} else {
		std::memcpy(gid.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, gid.size());
	}
	return gid;
}

}  // namespace

int ask_for_icmp(int fd, bool ipv4) {
	const int on = 1;
	return setsockopt(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_RECVERR : IPV6_RECVERR, &on, sizeof on);
}

// The kernel's tables are icmp_err_convert in net/ipv4/icmp.c, and icmpv6_err_convert().
bool may_be_icmp(int error) {
	switch (error) {
		case ECONNREFUSED:
		case EHOSTUNREACH:
		case ENETUNREACH:
		case EHOSTDOWN:
		case ENONET:
		case EACCES:
		case EPROTO:
		case ENOPROTOOPT:
		case EOPNOTSUPP:
		case EMSGSIZE: return true;
		default: return false;
	}
}

std::optional<IcmpError> next_icmp(int fd, std::span<std::byte> room) {
	sockaddr_storage destination{};
	alignas(cmsghdr) std::byte control[256];
	iovec piece{room.data(), room.size()};
	msghdr message{.msg_name = &destination,
		.msg_namelen = sizeof destination,
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof control};
	const long length = syscall(SYS_recvmsg, fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT);
	if (length < 0) return std::nullopt;
	IcmpError result{
		.destination = gid_of(destination), .quoted = std::span(room).first(static_cast<std::size_t>(length))};
	for (const cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(c))) {
		const bool has_error = (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
			(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR);
		sock_extended_err error{};
		if (!has_error || c->cmsg_len < CMSG_LEN(sizeof error)) continue;
		std::memcpy(&error, CMSG_DATA(c), sizeof error);
		// The kernel also reports datagrams above the MTU here, with the origin SO_EE_ORIGIN_LOCAL.
		if (error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6)
			result.error = static_cast<int>(error.ee_errno);
	}
	return result;
}

void UnreachableHosts::note(const wire::Gid& host, int error, Nanoseconds now) {
	auto* at = std::ranges::find(entries_, host, &Entry::host);
	if (at == entries_.end()) at = std::ranges::min_element(entries_, {}, [](const Entry& e) { return e.report.at; });
	*at = {host, {error, now}};
}

std::optional<UnreachableHosts::Report> UnreachableHosts::find(const wire::Gid& host) const {
	const auto* const at = std::ranges::find(entries_, host, &Entry::host);
	if (at == entries_.end() || at->report.error == 0) return std::nullopt;
	return at->report;
}

}  // namespace verbena::link

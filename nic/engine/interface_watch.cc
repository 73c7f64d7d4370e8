// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/interface_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace verbena::engine {

namespace {

// One call takes at most this many messages, so that a host whose interfaces change without a pause
// does not keep the caller here.
constexpr int messages_max = 256;

// A bridge announces its ports with the family AF_BRIDGE; the interface itself does not change.
bool is_about_a_link(const nlmsghdr& header) {
	return (header.nlmsg_type == RTM_NEWLINK || header.nlmsg_type == RTM_DELLINK) &&
		header.nlmsg_len >= NLMSG_LENGTH(sizeof(ifinfomsg)) &&
		static_cast<const ifinfomsg*>(NLMSG_DATA(&header))->ifi_family == AF_UNSPEC;
}

}  // namespace

std::expected<InterfaceWatch, int> InterfaceWatch::open() {
	Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
	if (!socket) return std::unexpected(errno);
	const sockaddr_nl groups{
		.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
	if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&groups), sizeof groups) != 0)
		return std::unexpected(errno);
	return InterfaceWatch(std::move(socket));
}

InterfaceWatch::InterfaceWatch(Descriptor socket)
	: socket_(std::move(socket)), namespace_cookie_(namespace_cookie(socket_.get())) {}

bool InterfaceWatch::take(std::vector<LinkChange>& links) {
	bool changed = false;
	for (int message = 0; message < messages_max; ++message) {
		alignas(nlmsghdr) std::array<std::byte, 16384> buffer;
		sockaddr_nl sender{};
		socklen_t sender_size = sizeof sender;
		const ssize_t got = recvfrom(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT,
			reinterpret_cast<sockaddr*>(&sender), &sender_size);
		if (got < 0 && errno == ENOBUFS) {
			changed = true;
			continue;
		}
		if (got <= 0) break;
		if (sender.nl_pid != 0) continue;  // not the kernel
		changed = true;
		auto rest = static_cast<std::size_t>(got);
		for (auto* header = reinterpret_cast<nlmsghdr*>(buffer.data()); NLMSG_OK(header, rest);
			header = NLMSG_NEXT(header, rest)) {
			if (!is_about_a_link(*header)) continue;
			const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(header));
			links.push_back({.index = static_cast<unsigned>(link->ifi_index),
				.namespace_cookie = namespace_cookie_,
				.is_up = (link->ifi_flags & IFF_UP) != 0,
				.is_active = is_active(link->ifi_flags),
				.removed = header->nlmsg_type == RTM_DELLINK});
		}
	}
	return changed;
}

}  // namespace verbena::engine

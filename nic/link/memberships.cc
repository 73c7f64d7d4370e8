// SPDX-License-Identifier: Apache-2.0
#include "nic/link/memberships.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>

#include "nic/link/udp_socket.h"

namespace verbena::link {

namespace {

enum class MembershipChange : bool { leaves, joins };

// Returns 0 or an errno value.
int change_membership(int fd, const wire::Gid& group, std::uint32_t interface_index, MembershipChange what) {
	const bool joins = what == MembershipChange::joins;
	int result;
	if (wire::is_ipv4_mapped(group)) {
		ip_mreqn request{};
		std::memcpy(&request.imr_multiaddr, group.data() + 12, 4);
		request.imr_ifindex = static_cast<int>(interface_index);
		result = setsockopt(fd, IPPROTO_IP, joins ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &request, sizeof request);
	} else {
		ipv6_mreq request{};
		std::memcpy(&request.ipv6mr_multiaddr, group.data(), 16);
		request.ipv6mr_interface = interface_index;
		result = setsockopt(fd, IPPROTO_IPV6, joins ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &request, sizeof request);
	}
	// EADDRINUSE: this socket is a member already.
	return result == 0 || (joins && errno == EADDRINUSE) ? 0 : errno;
}

// The kernel's answers at the limit of a socket: of IPv4 and of IPv6.
bool is_full(int error) { return error == ENOBUFS || error == ENOMEM; }

}  // namespace

int Memberships::join(int receiver, const wire::Gid& group, std::uint32_t interface_index) {
	const int error = change_membership(receiver, group, interface_index, MembershipChange::joins);
	if (!is_full(error)) return error;
	const bool is_ipv4 = wire::is_ipv4_mapped(group);
	for (Holder& holder : holders_) {
		if (holder.is_ipv4 != is_ipv4 || holder.full) continue;
		holder.held.reserve(holder.held.size() + 1);
		const int refused = change_membership(holder.socket.get(), group, interface_index, MembershipChange::joins);
		if (refused == 0) return holder.held.emplace_back(group, interface_index), 0;
		if (!is_full(refused)) return refused;
		holder.full = true;
	}
	Holder added{.socket = Descriptor(socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)),
		.is_ipv4 = is_ipv4,
		.held = {{group, interface_index}}};
	if (!added.socket) return errno;
	if (const int refused = change_membership(added.socket.get(), group, interface_index, MembershipChange::joins))
		return refused;
	holders_.push_back(std::move(added));
	return 0;
}

int Memberships::leave(int receiver, const wire::Gid& group, std::uint32_t interface_index) {
	for (auto holder = holders_.begin(); holder != holders_.end(); ++holder) {
		if (std::erase(holder->held, Membership{group, interface_index}) == 0) continue;
		const int error = change_membership(holder->socket.get(), group, interface_index, MembershipChange::leaves);
		holder->full = false;
		if (holder->held.empty()) holders_.erase(holder);
		return error;
	}
	return change_membership(receiver, group, interface_index, MembershipChange::leaves);
}

}  // namespace verbena::link

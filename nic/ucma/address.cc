#include "nic/ucma/address.h"

#include <arpa/inet.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "nic/engine/descriptor.h"

namespace verbena::ucma {

std::expected<Address, int> Address::from(const void* address, std::size_t bytes) {
	Address result;
	sa_family_t family = AF_UNSPEC;
	if (bytes < sizeof family) return std::unexpected(EINVAL);
	std::memcpy(&family, address, sizeof family);
	if (family != AF_INET && family != AF_INET6) return std::unexpected(EAFNOSUPPORT);
	const std::size_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
	if (bytes < size) return std::unexpected(EINVAL);
	std::memcpy(&result.storage_, address, size);
	return result;
}

Address Address::from(const wire::Gid& gid, std::uint16_t port) {
	Address result;
	if (wire::is_ipv4_mapped(gid)) {
		auto& to = reinterpret_cast<sockaddr_in&>(result.storage_);
		to.sin_family = AF_INET;
		std::memcpy(&to.sin_addr, gid.data() + 12, 4);
	} else {
		auto& to = reinterpret_cast<sockaddr_in6&>(result.storage_);
		to.sin6_family = AF_INET6;
		std::memcpy(&to.sin6_addr, gid.data(), 16);
	}
	result.set_port(port);
	return result;
}

std::uint16_t Address::port() const {
	return family() == AF_INET ? ntohs(v4().sin_port) : family() == AF_INET6 ? ntohs(v6().sin6_port) : 0;
}

void Address::set_port(std::uint16_t port) {
	if (family() == AF_INET) reinterpret_cast<sockaddr_in&>(storage_).sin_port = htons(port);
	else if (family() == AF_INET6) reinterpret_cast<sockaddr_in6&>(storage_).sin6_port = htons(port);
}

bool Address::is_any() const {
	if (family() == AF_INET) return v4().sin_addr.s_addr == INADDR_ANY;
	return family() != AF_INET6 || IN6_IS_ADDR_UNSPECIFIED(&v6().sin6_addr);
}

bool Address::is_loopback() const {
	if (family() == AF_INET) return ntohl(v4().sin_addr.s_addr) >> 24 == 127;
	return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6().sin6_addr);
}

wire::Gid Address::gid() const {
	wire::Gid gid{};
	if (family() == AF_INET) {
		gid[10] = gid[11] = 0xff;
		std::memcpy(gid.data() + 12, &v4().sin_addr, 4);
	} else if (family() == AF_INET6) {
		std::memcpy(gid.data(), &v6().sin6_addr, 16);
	}
	return gid;
}

unsigned Address::scope() const { return family() == AF_INET6 ? v6().sin6_scope_id : 0; }

std::optional<Place> place_of(std::span<const Device> devices, const Address& address) {
	const wire::Gid gid = address.gid();
	for (const Device& device : devices) {
		if (address.scope() != 0 && address.scope() != device.interface.index) continue;
		const auto& gids = device.interface.gids;
		const auto at = std::ranges::find(gids, gid);
		if (at != gids.end()) return Place{device, static_cast<std::uint8_t>(at - gids.begin()), gid};
	}
	if (!address.is_loopback()) return std::nullopt;
	for (const Device& device : devices)
		if (device.interface.is_loopback && !device.interface.gids.empty())
			return Place{device, 0, device.interface.gids[0]};
	return std::nullopt;
}

std::expected<Address, int> source_for(const Address& destination, const Address& source) {
	// A multicast group can be reached from any source address, even without a route.
	if (destination.is_multicast() && source.given() && !source.is_any()) return source;
	// Connecting a UDP socket sends nothing; it makes the kernel choose the route and the source.
	const engine::Descriptor socket(::socket(destination.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (!socket) return std::unexpected(errno);
	if (source.given() && !source.is_any()) {
		Address own = source;
		own.set_port(0);
		if (bind(socket.get(), own.get(), own.size()) != 0) return std::unexpected(errno);
	}
	Address to = destination;
	if (to.port() == 0) to.set_port(wire::roce_port);
	if (connect(socket.get(), to.get(), to.size()) != 0) return std::unexpected(errno);
	sockaddr_storage chosen{};
	socklen_t size = sizeof chosen;
	if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&chosen), &size) != 0) return std::unexpected(errno);
	auto result = Address::from(&chosen, size);
	if (result) result->set_port(source.port());
	return result;
}

namespace {

// The kernel's state for a neighbour (NUD_*), 0 if it knows none.
std::uint16_t neighbour_state(const Address& destination) {
	const engine::Descriptor netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
	if (!netlink) return NUD_PERMANENT;  // without netlink, assume that the neighbour is there
	struct {
		nlmsghdr header;
		ndmsg message;
	} request{};
	request.header = {
		.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETNEIGH, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP};
	request.message.ndm_family = static_cast<std::uint8_t>(destination.family());
	if (send(netlink.get(), &request, sizeof request, 0) < 0) return NUD_PERMANENT;
	const wire::Gid wanted = destination.gid();
	const std::size_t offset = destination.family() == AF_INET ? 12 : 0, length = 16 - offset;
	alignas(nlmsghdr) std::array<std::byte, 16384> buffer;
	for (;;) {
		const ssize_t got = recv(netlink.get(), buffer.data(), buffer.size(), 0);
		if (got <= 0) return 0;
		auto rest = static_cast<std::size_t>(got);
		for (auto* header = reinterpret_cast<nlmsghdr*>(buffer.data()); NLMSG_OK(header, rest);
			header = NLMSG_NEXT(header, rest)) {
			if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR) return 0;
			const auto* message = static_cast<const ndmsg*>(NLMSG_DATA(header));
			auto attributes = header->nlmsg_len - NLMSG_LENGTH(sizeof *message);
			for (const auto* a = reinterpret_cast<const rtattr*>(message + 1); RTA_OK(a, attributes);
				a = RTA_NEXT(a, attributes))
				if (a->rta_type == NDA_DST && RTA_PAYLOAD(a) == length &&
					std::memcmp(RTA_DATA(a), wanted.data() + offset, length) == 0)
					return message->ndm_state;
		}
	}
}

// True if the destination is on a local network and not behind a router: with SO_DONTROUTE the
// kernel finds a route for directly connected networks only.
bool on_link(const Address& destination, const Address& source) {
	const engine::Descriptor socket(::socket(destination.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
	const int on = 1;
	if (!socket || setsockopt(socket.get(), SOL_SOCKET, SO_DONTROUTE, &on, sizeof on) != 0) return false;
	Address own = source, to = destination;
	own.set_port(0);
	to.set_port(wire::roce_port);
	return bind(socket.get(), own.get(), own.size()) == 0 && connect(socket.get(), to.get(), to.size()) == 0;
}

// Makes the kernel look for the neighbour, by an empty datagram to the RoCE port, which every
// receiver ignores.
void provoke(const Address& destination, const Address& source) {
	const engine::Descriptor socket(::socket(destination.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (!socket) return;
	Address own = source, to = destination;
	own.set_port(0);
	to.set_port(wire::roce_port);
	if (bind(socket.get(), own.get(), own.size()) == 0) sendto(socket.get(), "", 0, MSG_DONTWAIT, to.get(), to.size());
}

}  // namespace

Neighbour probe_neighbour(const Address& destination, const Address& source) {
	if (destination.gid() == source.gid() || destination.is_loopback() || destination.is_multicast() ||
		!on_link(destination, source))
		return Neighbour::there;
	const std::uint16_t state = neighbour_state(destination);
	if (state & NUD_FAILED) return Neighbour::absent;
	if (state & (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP))
		return Neighbour::there;
	if (!(state & NUD_INCOMPLETE)) provoke(destination, source);
	return Neighbour::unknown;
}

}  // namespace verbena::ucma

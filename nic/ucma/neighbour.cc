// SPDX-License-Identifier: Apache-2.0
#include "nic/ucma/neighbour.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>

#include "base/descriptor.h"

namespace verbena::ucma {

namespace {

// The address as netlink has it: 4 or 16 bytes.
class NetlinkAddress {
public:
	explicit NetlinkAddress(const Address& address)
		: gid_(address.gid()), offset_(address.family() == AF_INET ? 12 : 0) {}
	std::span<const std::uint8_t> bytes() const { return std::span(gid_).subspan(offset_); }

private:
	wire::Gid gid_;
	std::size_t offset_;
};

// Sends a request to the kernel's routing tables and calls use(message header) for each message of
// the answer, until it returns true. False: the kernel did not answer.
template <class Use> bool ask_kernel(const nlmsghdr& request, Use&& use) {
	const Descriptor netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
	if (!netlink || send(netlink.get(), &request, request.nlmsg_len, 0) < 0) return false;
	alignas(nlmsghdr) std::array<std::byte, 16384> buffer;
	for (;;) {
		const ssize_t got = recv(netlink.get(), buffer.data(), buffer.size(), 0);
		if (got < 0 && errno == EINTR) continue;
		if (got <= 0) return false;
		auto rest = static_cast<std::size_t>(got);
		for (auto* header = reinterpret_cast<nlmsghdr*>(buffer.data()); NLMSG_OK(header, rest);
			header = NLMSG_NEXT(header, rest)) {
			if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR || use(*header)) return true;
			if (!(header->nlmsg_flags & NLM_F_MULTI)) return true;
		}
	}
}

// The bytes of an attribute that follows the message's fixed part `Fixed`; empty if there is none.
template <class Fixed> std::span<const std::byte> attribute_of(const nlmsghdr& header, unsigned short type) {
	auto length = header.nlmsg_len - NLMSG_LENGTH(sizeof(Fixed));
	const auto* fixed = static_cast<const std::byte*>(NLMSG_DATA(&header));
	for (const auto* a = reinterpret_cast<const rtattr*>(fixed + NLMSG_ALIGN(sizeof(Fixed))); RTA_OK(a, length);
		a = RTA_NEXT(a, length))
		if (a->rta_type == type) return {static_cast<const std::byte*>(RTA_DATA(a)), RTA_PAYLOAD(a)};
	return {};
}

// The kernel's state for a neighbour (NUD_*), 0 if it has no such neighbour.
std::uint16_t neighbour_state(const Address& destination) {
	struct {
		nlmsghdr header;
		ndmsg message;
	} request{};
	request.header = {
		.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETNEIGH, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP};
	request.message.ndm_family = static_cast<std::uint8_t>(destination.family());
	const NetlinkAddress wanted(destination);
	std::uint16_t state = 0;
	const bool answered = ask_kernel(request.header, [&](const nlmsghdr& header) {
		const auto address = attribute_of<ndmsg>(header, NDA_DST);
		if (address.size() != wanted.bytes().size() ||
			std::memcmp(address.data(), wanted.bytes().data(), address.size()) != 0)
			return false;
		state = static_cast<const ndmsg*>(NLMSG_DATA(&header))->ndm_state;
		return true;
	});
	return answered ? state : std::uint16_t{NUD_PERMANENT};
}

// The index of the interface by which the kernel sends from `source` to `destination`.
std::optional<unsigned> interface_of_route(const Address& destination, const Address& source) {
	struct {
		nlmsghdr header;
		rtmsg message;
		std::array<std::byte, 128> attributes;
	} request{};
	request.header = {
		.nlmsg_len = NLMSG_LENGTH(sizeof request.message), .nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST};
	const auto add = [&](unsigned short type, const void* bytes, std::size_t size) {
		auto* a = reinterpret_cast<rtattr*>(reinterpret_cast<std::byte*>(&request) + request.header.nlmsg_len);
		*a = {static_cast<unsigned short>(RTA_LENGTH(size)), type};
		std::memcpy(RTA_DATA(a), bytes, size);
		request.header.nlmsg_len += static_cast<unsigned>(RTA_SPACE(size));
	};
	const NetlinkAddress to(destination), from(source);
	const auto bits = static_cast<std::uint8_t>(8 * to.bytes().size());
	request.message.rtm_family = static_cast<std::uint8_t>(destination.family());
	request.message.rtm_dst_len = request.message.rtm_src_len = bits;
	add(RTA_DST, to.bytes().data(), to.bytes().size());
	add(RTA_SRC, from.bytes().data(), from.bytes().size());
	const unsigned scope = destination.scope() ? destination.scope() : source.scope();
	if (scope) add(RTA_OIF, &scope, sizeof scope);
	std::optional<unsigned> index;
	ask_kernel(request.header, [&](const nlmsghdr& header) {
		const auto found = attribute_of<rtmsg>(header, RTA_OIF);
		if (found.size() == sizeof *index) std::memcpy(&index.emplace(), found.data(), sizeof *index);
		return true;
	});
	return index;
}

// True if the kernel keeps no neighbours on the interface: it sends every packet to the one other
// end (tun, WireGuard, ipip), or to the link without an address (dummy, `arp off`).
bool has_no_neighbours(unsigned interface_index) {
	const Descriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	ifreq request{};
	if (!any || !if_indextoname(interface_index, request.ifr_name)) return false;
	if (ioctl(any.get(), SIOCGIFFLAGS, &request) != 0) return false;
	return (request.ifr_flags & (IFF_LOOPBACK | IFF_POINTOPOINT | IFF_NOARP)) != 0;
}

// True if the destination is on a local network and not behind a router: with SO_DONTROUTE the
// kernel finds a route for directly connected networks only.
bool on_link(const Address& destination, const Address& source) {
	const Descriptor socket(::socket(destination.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
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
	const Descriptor socket(::socket(destination.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
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
	if (state & (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP))
		return Neighbour::there;
	if (const auto interface = interface_of_route(destination, source); interface && has_no_neighbours(*interface))
		return Neighbour::there;
	if (state & NUD_FAILED) return Neighbour::absent;
	if (!(state & NUD_INCOMPLETE)) provoke(destination, source);
	return Neighbour::unknown;
}

}  // namespace verbena::ucma

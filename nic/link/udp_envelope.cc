// SPDX-License-Identifier: Apache-2.0
#include "nic/link/udp_envelope.h"

#include <algorithm>
#include <cstring>
#include <netinet/in.h>
#include <netinet/udp.h>

namespace verbena::link {
namespace {

// Appends a control message. The caller has provided control_bytes bytes, aligned for cmsghdr.
template <class Value> void append(msghdr& message, int level, int type, const Value& value) {
	auto* header = reinterpret_cast<cmsghdr*>(static_cast<std::byte*>(message.msg_control) + message.msg_controllen);
	header->cmsg_level = level;
	header->cmsg_type = type;
	header->cmsg_len = CMSG_LEN(sizeof value);
	std::memcpy(CMSG_DATA(header), &value, sizeof value);
	message.msg_controllen += CMSG_SPACE(sizeof value);
}

// The kernel sends the type of service as one byte, other values as an int.
int to_int(const cmsghdr* header) {
	if (header->cmsg_len < CMSG_LEN(sizeof(int)))
		return std::to_integer<int>(*reinterpret_cast<const std::byte*>(CMSG_DATA(header)));
	int value;
	std::memcpy(&value, CMSG_DATA(header), sizeof value);
	return value;
}

void set_ipv4(wire::Gid& gid, const in_addr& address) {
	gid = {};
	gid[10] = gid[11] = 0xff;
	std::memcpy(&gid[12], &address, 4);
}

}  // namespace

Envelope open_envelope(msghdr& message, const SocketAddress& sender) {
	Envelope result;
	if (sender.any.sa_family == AF_INET) {
		set_ipv4(result.flow.source, sender.ipv4.sin_addr);
		result.flow.source_port = ntohs(sender.ipv4.sin_port);
	} else {
		std::memcpy(result.flow.source.data(), &sender.ipv6.sin6_addr, 16);
		result.flow.source_port = ntohs(sender.ipv6.sin6_port);
	}
	for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			in_pktinfo info;
			std::memcpy(&info, CMSG_DATA(c), sizeof info);
			set_ipv4(result.flow.destination, info.ipi_addr);
			result.addressed = true;
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			in6_pktinfo info;
			std::memcpy(&info, CMSG_DATA(c), sizeof info);
			std::memcpy(result.flow.destination.data(), &info.ipi6_addr, 16);
			result.addressed = true;
		} else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) ||
			(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)) {
			result.flow.traffic_class = static_cast<std::uint8_t>(to_int(c));
		} else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) ||
			(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT)) {
			result.flow.hop_limit = static_cast<std::uint8_t>(to_int(c));
		} else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			result.segment_bytes = static_cast<std::size_t>(to_int(c));
		} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
			std::memcpy(&result.overflowed, CMSG_DATA(c), sizeof result.overflowed);
		}
	}
	return result;
}

wire::AddressPair address_pair(const wire::Flow& flow) {
	wire::AddressPair pair{.traffic_class = flow.traffic_class, .hop_limit = flow.hop_limit};
	std::ranges::copy(flow.source, pair.source);
	std::ranges::copy(flow.destination, pair.destination);
	return pair;
}

void address_message(msghdr& message, SocketAddress& to, Family family, const wire::Flow& flow,
	std::uint32_t interface_index, std::size_t segment_bytes) {
	message.msg_namelen = to_address(to, family, flow.destination, flow.destination_port);
	if (family == Family::ipv4) {
		in_pktinfo info{};
		std::memcpy(&info.ipi_spec_dst, &flow.source[12], 4);
		append(message, IPPROTO_IP, IP_PKTINFO, info);
		append(message, IPPROTO_IP, IP_TOS, int{flow.traffic_class});
		append(message, IPPROTO_IP, IP_TTL, std::max(int{flow.hop_limit}, 1));
	} else {
		to.ipv6.sin6_scope_id = interface_index;
		in6_pktinfo info{};
		std::memcpy(&info.ipi6_addr, flow.source.data(), 16);
		info.ipi6_ifindex = interface_index;
		append(message, IPPROTO_IPV6, IPV6_PKTINFO, info);
		append(message, IPPROTO_IPV6, IPV6_TCLASS, int{flow.traffic_class});
		append(message, IPPROTO_IPV6, IPV6_HOPLIMIT, std::max(int{flow.hop_limit}, 1));
	}
	if (segment_bytes != 0) append(message, SOL_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(segment_bytes));
}

}  // namespace verbena::link

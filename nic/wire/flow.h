// SPDX-License-Identifier: Apache-2.0
// The IP and UDP fields around a RoCEv2 packet (IBA Annex A17).
//
// Addresses are GIDs of 16 bytes; an IPv4 address is ::ffff:a.b.c.d.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace verbena::wire {

inline constexpr std::uint16_t roce_port = 4791;
// Bytes of the headers, without options or extensions.
inline constexpr std::size_t ipv4_size = 20, ipv6_size = 40, udp_size = 8;

using Gid = std::array<std::uint8_t, 16>;

// Whether the GID is ::ffff:a.b.c.d.
constexpr bool is_ipv4_mapped(const Gid& gid) {
	for (int i = 0; i < 10; ++i)
		if (gid[i] != 0) return false;
	return gid[10] == 0xff && gid[11] == 0xff;
}

// Whether the GID is in 224.0.0.0/4 or ff00::/8.
constexpr bool is_multicast(const Gid& gid) { return is_ipv4_mapped(gid) ? gid[12] >> 4 == 14 : gid[0] == 0xff; }

// Both ends are of one address family. Ports are in host byte order.
struct Flow {
	Gid source{};
	Gid destination{};
	std::uint16_t source_port = 0;
	std::uint16_t destination_port = roce_port;
	std::uint8_t traffic_class = 0;
	std::uint8_t hop_limit = 64;

	constexpr bool is_ipv4() const { return is_ipv4_mapped(destination); }
	friend bool operator==(const Flow&, const Flow&) = default;
};

}  // namespace verbena::wire

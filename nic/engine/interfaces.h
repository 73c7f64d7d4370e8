// SPDX-License-Identifier: Apache-2.0
// The network interfaces of this host, each of which can be an RDMA device.
//
// Threads: any. list_interfaces() asks the kernel; every other function is pure.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "nic/engine/gid_table.h"

namespace verbena::engine {

using Mac = std::array<std::uint8_t, 6>;  // zero: none

struct Interface {
	std::string name;
	unsigned index = 0;  // if_nametoindex(); the scope of a link-local address
	std::uint32_t mtu = 0;  // bytes of an IP packet
	Mac mac{};
	bool is_loopback = false;
	bool is_default_route = false;
	bool is_up = false;  // set up by the administrator
	bool is_active = false;  // up, and with a carrier: its port is ACTIVE
	GidTable gids;  // all RoCE v2
	// EUI-64, most significant byte first on the wire. Not zero, unique on this host, the same at
	// every start.
	std::uint64_t guid = 0;
	// The network namespace (SO_NETNS_COOKIE); 0 if the kernel does not know it, before Linux 5.14.
	std::uint64_t namespace_cookie = 0;

	friend bool operator==(const Interface&, const Interface&) = default;
};

// A change of one interface, as the kernel announced it.
struct LinkChange {
	unsigned index = 0;
	std::uint64_t namespace_cookie = 0;
	bool is_up = false, is_active = false;  // as in Interface
	bool removed = false;
};

// All interfaces of the calling thread's network namespace: the one of the default route first,
// loopback last, the others by index. Each has a new GID table. An errno value if the kernel cannot
// be asked, for example EMFILE.
std::expected<std::vector<Interface>, int> list_interfaces();

// The cookie of the network namespace of a socket; 0 if the kernel does not know it.
std::uint64_t namespace_cookie(int socket);

// Whether an interface with these flags (ifi_flags of rtnetlink) can carry packets.
bool is_active(unsigned flags);

// "vb_eth0" for "eth0", cut to IBV_SYSFS_NAME_MAX bytes with its zero.
std::string device_name(std::string_view interface_name);

// The path MTU of an interface, in bytes: the largest of 256 ... 4096 that leaves room for the
// headers (80 bytes, the same allowance as in the kernel's Soft-RoCE), and 256 if none does.
std::uint32_t active_mtu(std::uint32_t interface_mtu);
// The same as an `enum ibv_mtu`: 1 is 256, 5 is 4096.
std::uint8_t active_mtu_code(std::uint32_t interface_mtu);

// The EUI-64 of a MAC address; for an interface without one, a hash of its name and the cookie of
// its network namespace, marked as locally administered.
std::uint64_t guid_of(const Mac& mac);
std::uint64_t guid_of(std::string_view interface_name, std::uint64_t namespace_cookie);

// The interface of the default route, from the text of /proc/net/route and /proc/net/ipv6_route.
// IPv4 has precedence, then the lowest metric. Empty: there is no default route.
std::string default_route(std::string_view ipv4_routes, std::string_view ipv6_routes);

}  // namespace verbena::engine

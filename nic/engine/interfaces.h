// The network interfaces of this host as RDMA devices: one device for each interface that is up.
//
// Threads: any. list_interfaces() asks the kernel; every other function is pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nic/wire/flow.h"

namespace verbena::engine {

// gid_tbl_len of ibv_query_port(). The last entry is always empty, because programs look for one.
inline constexpr std::uint32_t gid_table_length = 256;

using Mac = std::array<std::uint8_t, 6>;  // zero: none

struct Interface {
	std::string name;
	unsigned index = 0;  // if_nametoindex(); the scope of a link-local address
	std::uint32_t mtu = 0;  // bytes of an IP packet
	Mac mac{};
	bool is_loopback = false;
	bool is_default_route = false;
	// The GID table, all RoCE v2: IPv4, then global IPv6, then link-local, so that GID 0 is an
	// address that works. At most gid_table_length - 1.
	std::vector<wire::Gid> gids;
	// EUI-64, most significant byte first on the wire. Not zero, unique on this host, the same at
	// every start.
	std::uint64_t guid = 0;
};

// The interfaces that are up: the one of the default route first, loopback last, the others by
// index. Empty if the kernel cannot be asked (getifaddrs() failed).
std::vector<Interface> list_interfaces();

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

// The position of a GID's kind in the GID table. 0: IPv4, 1: global IPv6, 2: link-local.
int gid_order(const wire::Gid& gid);

// The interface of the default route, from the text of /proc/net/route and /proc/net/ipv6_route.
// IPv4 has precedence, then the lowest metric. Empty: there is no default route.
std::string default_route(std::string_view ipv4_routes, std::string_view ipv6_routes);

}  // namespace verbena::engine

// The network interfaces of this host, as RDMA devices: one device for each interface that is up.
//
// list_interfaces() asks the kernel; everything else is pure. Values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nic/wire/flow.h"

namespace verbena::engine {

// query_port's gid_tbl_len. At least one slot, the last, is always empty (programs probe for one).
inline constexpr std::uint32_t gid_table_length = 256;

using Mac = std::array<std::uint8_t, 6>;  // zero: none

struct Interface {
	std::string name;
	unsigned index = 0;  // what a link-local address needs beside it
	std::uint32_t mtu = 0;
	Mac mac{};
	bool is_loopback = false;
	bool is_default_route = false;
	// The GID table, all RoCE v2: IPv4, then global IPv6, then link-local, so that GID 0 is an address that works. At
	// most gid_table_length - 1.
	std::vector<wire::Gid> gids;
	std::uint64_t guid = 0;  // most significant byte first on the wire; not zero, unique on this host, stable
};

// Those that are up: the default route's first, loopback last, otherwise by index. Empty if the kernel tells nothing.
std::vector<Interface> list_interfaces();

// "vb_eth0", cut to what IBV_SYSFS_NAME_MAX holds.
std::string device_name(std::string_view interface_name);

// The path MTU of an interface, in bytes: the largest of 256 ... 4096 that leaves room for the headers (80 bytes, as
// kernel Soft-RoCE reckons), and 256 where none does.
std::uint32_t active_mtu(std::uint32_t interface_mtu);
// The same as `enum ibv_mtu` counts: 1 is 256, 5 is 4096.
std::uint8_t active_mtu_code(std::uint32_t interface_mtu);

// EUI-64 of a MAC; without one, a hash of name and network namespace, marked as locally administered.
std::uint64_t guid_of(const Mac& mac);
std::uint64_t guid_of(std::string_view interface_name, std::uint64_t namespace_cookie);

// 0: IPv4, 1: global IPv6, 2: link-local.
int gid_order(const wire::Gid& gid);

// Which interface holds the default route, by the text of /proc/net/route and /proc/net/ipv6_route; empty: none. IPv4
// goes first, then the lowest metric.
std::string default_route(std::string_view ipv4_routes, std::string_view ipv6_routes);

}  // namespace verbena::engine

// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/interfaces.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <tuple>

#include "base/descriptor.h"

namespace verbena::engine {

namespace {

constexpr std::size_t device_name_max = 63;  // IBV_SYSFS_NAME_MAX with its zero

// getifaddrs() names an IPv4 address by its label, which may be "eth0:1".
std::string without_label(const char* name) { return std::string(name, std::strcspn(name, ":")); }

wire::Gid gid_of(const sockaddr_in& address) {
	wire::Gid gid{};
	gid[10] = gid[11] = 0xff;
	std::memcpy(&gid[12], &address.sin_addr, 4);
	return gid;
}

wire::Gid gid_of(const sockaddr_in6& address) {
	wire::Gid gid;
	std::memcpy(gid.data(), &address.sin6_addr, gid.size());
	return gid;
}

// Some C libraries return addresses that are not aligned for their type, so they are copied.
template <class Address> Address as(const sockaddr* from) {
	Address to;
	std::memcpy(&to, from, sizeof to);
	return to;
}

std::uint32_t mtu_of(int socket, const std::string& name) {
	ifreq request{};
	name.copy(request.ifr_name, IFNAMSIZ - 1);
	return ioctl(socket, SIOCGIFMTU, &request) == 0 ? static_cast<std::uint32_t>(request.ifr_mtu) : 0;
}

// The part of the file that can be read.
std::string text_of(const char* path) {
	std::string text;
	const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
	char part[4096];
	for (ssize_t got; file && (got = read(file.get(), part, sizeof part)) != 0;) {
		if (got > 0) text.append(part, static_cast<std::size_t>(got));
		else if (errno != EINTR) break;
	}
	return text;
}

std::map<std::string, Interface> collect(const ifaddrs* list) {
	std::map<std::string, Interface> found;
	for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
		Interface& interface = found[without_label(entry->ifa_name)];
		interface.is_loopback = entry->ifa_flags & IFF_LOOPBACK;
		interface.is_up = entry->ifa_flags & IFF_UP;
		interface.is_active = is_active(entry->ifa_flags);
		if (!entry->ifa_addr) continue;
		const int family = entry->ifa_addr->sa_family;
		if (family == AF_INET) interface.gids.push_back(gid_of(as<sockaddr_in>(entry->ifa_addr)));
		if (family == AF_INET6) interface.gids.push_back(gid_of(as<sockaddr_in6>(entry->ifa_addr)));
		if (family == AF_PACKET) {
			// Longer hardware addresses (IPoIB, tunnels) are not MAC addresses.
			const auto link = as<sockaddr_ll>(entry->ifa_addr);
			if (link.sll_halen == interface.mac.size())
				std::memcpy(interface.mac.data(), link.sll_addr, interface.mac.size());
		}
	}
	return found;
}

}  // namespace

std::uint64_t namespace_cookie(int socket) {
	constexpr int so_netns_cookie = 71;  // since Linux 5.14
	std::uint64_t cookie = 0;
	socklen_t length = sizeof cookie;
	getsockopt(socket, SOL_SOCKET, so_netns_cookie, &cookie, &length);
	return cookie;
}

bool is_active(unsigned flags) {
	constexpr unsigned lower_up = 1 << 16;  // IFF_LOWER_UP, which <net/if.h> does not have
	return flags & IFF_UP && flags & (IFF_RUNNING | lower_up);
}

std::expected<std::vector<Interface>, int> list_interfaces() {
	ifaddrs* list = nullptr;
	const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (!socket || getifaddrs(&list) != 0) return std::unexpected(errno);
	const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, freeifaddrs);
	auto found = collect(list);

	const std::string route = default_route(text_of("/proc/net/route"), text_of("/proc/net/ipv6_route"));
	const std::uint64_t cookie = namespace_cookie(socket.get());
	std::vector<Interface> interfaces;
	for (auto& [name, interface] : found) {
		interface.name = name;
		interface.index = if_nametoindex(name.c_str());
		interface.mtu = mtu_of(socket.get(), name);
		interface.is_default_route = name == route;
		if (interface.index == 0 || interface.mtu == 0) continue;  // it is gone by now
		interface.namespace_cookie = cookie;
		interface.gids = new_gid_table(std::move(interface.gids));
		interfaces.push_back(std::move(interface));
	}

	// A VLAN or a bridge has the MAC address of the interface below it. The interface with the
	// lowest index keeps the EUI-64, the others get a hash.
	std::ranges::sort(interfaces, {}, &Interface::index);
	std::set<std::uint64_t> taken;
	for (Interface& interface : interfaces) {
		if (interface.mac != Mac{}) interface.guid = guid_of(interface.mac);
		if (interface.guid == 0 || taken.contains(interface.guid)) interface.guid = guid_of(interface.name, cookie);
		taken.insert(interface.guid);
	}
	std::ranges::stable_sort(
		interfaces, {}, [](const Interface& each) { return std::tuple(!each.is_default_route, each.is_loopback); });
	return interfaces;
}

std::string device_name(std::string_view interface_name) {
	return ("vb_" + std::string(interface_name)).substr(0, device_name_max);
}

std::uint32_t active_mtu(std::uint32_t interface_mtu) {
	constexpr std::uint32_t headers = 80;
	const std::uint32_t payload = interface_mtu > headers ? interface_mtu - headers : 0;
	return std::clamp(std::bit_floor(payload), 256u, 4096u);
}

std::uint8_t active_mtu_code(std::uint32_t interface_mtu) {
	return static_cast<std::uint8_t>(std::bit_width(active_mtu(interface_mtu) / 256));
}

std::uint64_t guid_of(const Mac& mac) {
	const std::array<std::uint8_t, 8> eui{
		static_cast<std::uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
	std::uint64_t guid = 0;
	for (const std::uint8_t byte : eui) guid = guid << 8 | byte;
	return guid;
}

std::uint64_t guid_of(std::string_view interface_name, std::uint64_t namespace_cookie) {
	// FNV-1a over cookie and name, then a finaliser, because FNV-1a mixes its high bits poorly over
	// a few bytes.
	std::uint64_t hash = 0xcbf29ce484222325;
	const auto mix = [&](std::uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
	for (int shift = 0; shift < 64; shift += 8) mix(static_cast<std::uint8_t>(namespace_cookie >> shift));
	for (const char character : interface_name) mix(static_cast<std::uint8_t>(character));
	hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccd;
	hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53;
	hash ^= hash >> 33;
	// The universal bit of an EUI-64 is cleared: 0 is local, inverted as in guid_of(mac). A GUID of
	// zero would mean that there is none.
	hash &= ~(std::uint64_t{2} << 56);
	return hash ? hash : 1;
}

std::string default_route(std::string_view ipv4_routes, std::string_view ipv6_routes) {
	constexpr unsigned long up = 1, reject = 0x200;
	std::string best;
	unsigned long best_metric = std::numeric_limits<unsigned long>::max();
	const auto consider = [&](const std::string& name, unsigned long flags, unsigned long metric) {
		if (!(flags & up) || flags & reject || name == "lo" || (!best.empty() && metric >= best_metric)) return;
		best = name;
		best_metric = metric;
	};

	std::string line;
	std::istringstream ipv4{std::string(ipv4_routes)};
	std::getline(ipv4, line);  // column titles
	while (std::getline(ipv4, line)) {
		std::string name, destination, gateway, mask;
		unsigned long flags, references, use, metric;
		std::istringstream fields(line);
		if (!(fields >> name >> destination >> gateway >> std::hex >> flags >> std::dec >> references >> use >>
				metric >> mask))
			continue;
		if (destination == "00000000" && mask == "00000000") consider(name, flags, metric);
	}
	if (!best.empty()) return best;

	std::istringstream ipv6{std::string(ipv6_routes)};
	while (std::getline(ipv6, line)) {
		std::string destination, length, source, source_length, next_hop, name;
		unsigned long metric, references, use, flags;
		std::istringstream fields(line);
		if (!(fields >> destination >> length >> source >> source_length >> next_hop >> std::hex >> metric >>
				references >> use >> flags >> name))
			continue;
		if (destination == std::string(32, '0') && length == "00") consider(name, flags, metric);
	}
	return best;
}

}  // namespace verbena::engine

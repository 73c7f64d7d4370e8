// SPDX-License-Identifier: Apache-2.0
#include "lib/verbs/local_device.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/descriptor.h"
#include "lib/verbs/device.h"

namespace verbena::lib {
namespace {

// The GID of RoCE v2 for an address (IBA Annex A17).
std::optional<ibv_gid> gid_of(const sockaddr* address) {
	ibv_gid gid{};
	if (address->sa_family == AF_INET6) {
		std::memcpy(gid.raw, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, sizeof gid.raw);
	} else if (address->sa_family == AF_INET) {
		gid.raw[10] = gid.raw[11] = 0xff;
		std::memcpy(gid.raw + 12, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, sizeof(in_addr));
	} else {
		return std::nullopt;
	}
	return gid;
}

bool has_gid(const DeviceInfo& device, const ibv_gid& gid) {
	return std::ranges::any_of(device.ports, [&](const PortInfo& port) {
		return port.state == IBV_PORT_ACTIVE && std::ranges::any_of(port.gids, [&](const GidEntry& entry) {
			return std::memcmp(entry.gid.raw, gid.raw, sizeof gid.raw) == 0;
		});
	});
}

std::optional<sockaddr_storage> source_towards(const sockaddr* peer) {
	const Descriptor fd(socket(peer->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (!fd) return std::nullopt;
	sockaddr_storage local{};
	socklen_t length = sizeof local;
	const socklen_t peer_length = peer->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
	// For datagrams connect() only chooses the route.
	const bool routed = connect(fd.get(), peer, peer_length) == 0 &&
		getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &length) == 0;
	return routed ? std::optional(local) : std::nullopt;
}

}  // namespace

std::string device_at(const sockaddr* local) {
	const auto gid = gid_of(local);
	if (!gid) return {};
	const GidKind kind = kind_of(*gid);
	if (kind == GidKind::loopback || kind == GidKind::empty) return {};
	const auto devices = list_devices();
	if (!devices) return {};
	const auto found = std::ranges::find_if(*devices, [&](const DeviceInfo& each) { return has_gid(each, *gid); });
	return found == devices->end() ? std::string() : found->name;
}

std::string device_towards(std::span<const sockaddr* const> peers) {
	std::optional<std::string> common;
	for (const sockaddr* const peer : peers) {
		const std::optional<sockaddr_storage> local = source_towards(peer);
		const std::string name = local ? device_at(reinterpret_cast<const sockaddr*>(&*local)) : std::string();
		if (name.empty() || name != common.value_or(name)) return {};
		common = name;
	}
	return common.value_or(std::string());
}

}  // namespace verbena::lib

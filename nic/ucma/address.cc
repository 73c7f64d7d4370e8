// SPDX-License-Identifier: Apache-2.0
#include "nic/ucma/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptor.h"

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

bool Address::lacks_scope() const {
	return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6().sin6_addr) && scope() == 0;
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

Address Address::any_of_family() const {
	wire::Gid any{};
	if (family() == AF_INET) any[10] = any[11] = 0xff;
	return from(any, port());
}

unsigned Address::scope() const { return family() == AF_INET6 ? v6().sin6_scope_id : 0; }

namespace {

// The loopback's device if it is listed, otherwise the first ACTIVE one, as in the kernel, which
// has no device for the loopback.
std::optional<Place> place_of_loopback(std::span<const Device> devices) {
	const auto usable = [](const Device& device) {
		return device.interface.is_active && engine::first_gid(device.interface.gids);
	};
	auto at = std::ranges::find_if(
		devices, [&](const Device& device) { return device.interface.is_loopback && usable(device); });
	if (at == devices.end()) at = std::ranges::find_if(devices, usable);
	if (at == devices.end()) return std::nullopt;
	const std::uint8_t index = *engine::first_gid(at->interface.gids);
	return Place{*at, index, at->interface.gids[index]};
}

}  // namespace

std::optional<Place> place_of(std::span<const Device> devices, const Address& address) {
	const wire::Gid gid = address.gid();
	for (const Device& device : devices) {
		if (address.scope() != 0 && address.scope() != device.interface.index) continue;
		if (const auto index = engine::find_gid(device.interface.gids, gid)) return Place{device, *index, gid};
	}
	if (!address.is_loopback()) return std::nullopt;
	return place_of_loopback(devices);
}

std::expected<Address, int> source_for(const Address& destination, const Address& source) {
	// A multicast group can be reached from any source address, even without a route.
	if (destination.is_multicast() && source.given() && !source.is_any()) return source;
	// Connecting a UDP socket sends nothing; it makes the kernel choose the route and the source.
	const Descriptor socket(::socket(destination.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
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

}  // namespace verbena::ucma

// SPDX-License-Identifier: Apache-2.0
// Socket addresses, as rdma_cm uses them, and GIDs; and the device and source address for a
// destination.
//
// Threads: any. source_for() asks the kernel, so call it without the engine's lock.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <expected>
#include <optional>
#include <span>

#include "nic/engine/interfaces.h"
#include "nic/wire/flow.h"

namespace verbena::ucma {

// An IPv4 or IPv6 address with its port, or nothing (family AF_UNSPEC).
class Address {
public:
	Address() { storage_.ss_family = AF_UNSPEC; }
	// Errors: EAFNOSUPPORT for another family, such as AF_IB; EINVAL if `bytes` is too small.
	static std::expected<Address, int> from(const void* address, std::size_t bytes);
	static Address from(const wire::Gid&, std::uint16_t port);

	bool given() const { return storage_.ss_family != AF_UNSPEC; }
	int family() const { return storage_.ss_family; }
	const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
	sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage_); }
	socklen_t size() const {
		return family() == AF_INET6 ? sizeof(sockaddr_in6) : family() == AF_INET ? sizeof(sockaddr_in) : 0;
	}

	std::uint16_t port() const;
	void set_port(std::uint16_t);
	bool is_any() const;  // all zero, or none given
	bool is_loopback() const;  // 127/8 or ::1
	bool is_multicast() const { return given() && wire::is_multicast(gid()); }
	wire::Gid gid() const;  // all zero if none is given
	Address any_of_family() const;  // the any address of this address's family, with its port
	unsigned scope() const;  // IPv6 scope id, otherwise 0
	// A link-local IPv6 address that does not name its interface. As a source, the kernel refuses
	// it (cma_check_linklocal).
	bool lacks_scope() const;

private:
	const sockaddr_in& v4() const { return reinterpret_cast<const sockaddr_in&>(storage_); }
	const sockaddr_in6& v6() const { return reinterpret_cast<const sockaddr_in6&>(storage_); }

	sockaddr_storage storage_{};
};

// The attributes of a verbs device that rdma_cm uses.
struct Device {
	std::uint64_t guid = 0;
	int index = 0;
	engine::Interface interface;
};

// The device of an id, and the entry of its GID table that is the id's own address.
struct Place {
	Device device;
	std::uint8_t gid_index = 0;
	wire::Gid gid{};
};

// The device that has this address. For the rest of 127/8 and ::1, the loopback's device if it is
// listed, otherwise the first ACTIVE one.
std::optional<Place> place_of(std::span<const Device>, const Address&);

// The source address from which the kernel would send to `destination`. If `source` gives an
// address, it must be possible from there; its port is kept. Errors are those of the kernel's route
// lookup: ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL and others.
std::expected<Address, int> source_for(const Address& destination, const Address& source);

}  // namespace verbena::ucma

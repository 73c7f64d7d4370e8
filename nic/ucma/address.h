// Socket addresses as rdma_cm speaks them, and GIDs; and which of this host's devices leads where.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <vector>

#include "nic/engine/interfaces.h"
#include "nic/wire/flow.h"

namespace verbena::ucma {

// An IPv4 or IPv6 address with its port, or nothing (family AF_UNSPEC).
class Address {
public:
	Address() { storage_.ss_family = AF_UNSPEC; }
	// EAFNOSUPPORT: of another family (AF_IB, for one). EINVAL: too short.
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
	// All zero.
	bool is_any() const;
	bool is_loopback() const;  // 127/8 or ::1
	bool is_multicast() const { return given() && wire::is_multicast(gid()); }
	wire::Gid gid() const;  // of nothing: all zero
	unsigned scope() const;

private:
	const sockaddr_in& v4() const { return reinterpret_cast<const sockaddr_in&>(storage_); }
	const sockaddr_in6& v6() const { return reinterpret_cast<const sockaddr_in6&>(storage_); }

	sockaddr_storage storage_{};
};

// A device of the verbs, as far as rdma_cm speaks of it.
struct Device {
	std::uint64_t guid = 0;
	int index = 0;
	engine::Interface interface;
};

// Where an id stands: a device, and the GID of its table that is its own address.
struct Place {
	Device device;
	std::uint8_t gid_index = 0;
	wire::Gid gid{};
};

// The device that has this address; all of 127/8 is the loopback's.
std::optional<Place> place_of(std::span<const Device>, const Address&);

// The source address from which the kernel would send to `destination`, given what is known of it. Errors are those of
// the kernel's route: ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL ...
std::expected<Address, int> source_for(const Address& destination, const Address& source);

// Whether the neighbour that `destination` is reached by answers. `unknown` starts to look for it: ask again.
enum class Neighbour : std::uint8_t { there, unknown, absent };
Neighbour look_for(const Address& destination, const Address& source);

}  // namespace verbena::ucma

// SPDX-License-Identifier: Apache-2.0
// The abstract AF_UNIX names of the places of a host.
//
// A place has up to three names (docs/decisions/0029):
//  - keyed, "@verbena/<32 hex digits>": a keyed hash of the place. Only processes that know the
//    user's secret can compute it. A process of another user sees a name in /proc/net/unix as soon
//    as it is bound, and may bind it when its owner has ended. So a service has several keyed
//    names, its generations, and the owner takes the first that is free.
//  - plain, "@verbena/<uid>/qp/<block>" and "@verbena/<uid>/cm/<service id>": for processes of the
//    same user that have another secret or none, such as those of another container that shares
//    the network namespace.
//  - public, "@verbena/host/qp/<block>" and "@verbena/host/cm/<service id>": for processes of every
//    user, of those that allow it (VERBENA_PEERS=host, docs/decisions/0030).
//
// Threads: any; all functions are pure.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "nic/wire/numbers.h"

namespace verbena::engine {

// QPN = block << 12 | index. Block 0 holds the management QPs and the last one the multicast
// number: neither is ever claimed.
inline constexpr unsigned block_index_bits = 12;
inline constexpr std::uint32_t block_first = 1, block_last = 0xffe;
constexpr std::uint32_t block_of(wire::Qpn qpn) { return qpn.value >> block_index_bits; }

// A block of queue pair numbers, or an rdma_cm service: a process is found on its host by these.
struct Place {
	std::uint64_t value = 0;
	bool is_service = false;
	static constexpr Place block(std::uint32_t number) { return {number, false}; }
	static constexpr Place service(std::uint64_t id) { return {id, true}; }
	friend auto operator<=>(const Place&, const Place&) = default;
};

struct SocketName {
	sockaddr_un address{};
	socklen_t length = 0;
	const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

using NameSecret = std::array<std::byte, 32>;
using Digest = std::array<std::byte, 32>;

// HMAC-SHA-256 (RFC 2104, FIPS 180-4).
Digest hmac_sha256(const NameSecret& key, std::span<const std::byte> bytes);

// The number of keyed names of a place. A block needs one, because its owner may take any block.
constexpr unsigned generations(Place place) { return place.is_service ? 32 : 1; }

// `namespace_cookie`: the number of the network namespace (SO_NETNS_COOKIE), so that a name that
// was seen in one namespace is not valid in another; 0 where the kernel has none.
SocketName keyed_name(const NameSecret& secret, std::uint64_t namespace_cookie, Place place, unsigned generation);
SocketName plain_name(uid_t user, Place place);
SocketName public_name(Place place);
// All public names begin with this, after the zero byte of abstract names.
inline constexpr std::string_view public_prefix = "verbena/host/";

}  // namespace verbena::engine

// SPDX-License-Identifier: Apache-2.0
// The IP neighbour behind a destination: a host on a local network that answers ARP or neighbour
// discovery.
//
// Threads: any. probe_neighbour() asks the kernel, so call it without the engine's lock.
// Errors: where the kernel cannot be asked, for example because a filter forbids netlink sockets,
//   the neighbour counts as present.
#pragma once

#include <cstdint>

#include "nic/ucma/address.h"

namespace verbena::ucma {

// For `unknown` the kernel has been made to look for the neighbour; call again later. Destinations
// that need no neighbour count as present: behind a router, on this host, a multicast group, or on
// an interface without neighbours (point-to-point, no ARP).
enum class Neighbour : std::uint8_t { there, unknown, absent };
Neighbour probe_neighbour(const Address& destination, const Address& source);

}  // namespace verbena::ucma

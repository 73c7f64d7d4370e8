// The 40 bytes that a UD receive buffer begins with: what the receiver learns of the network header (InfiniBand
// Architecture Specification, annex A17). For IPv4, 20 zero bytes and the IPv4 header; for IPv6, the IPv6 header in the
// place of a GRH.
//
// No socket hands out the header itself, so it is built again from what is known. Of the IPv4 header the checksum is
// right: programs tell the two forms apart by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nic/wire/slot_ring.h"

namespace verbena::wire {

inline constexpr std::size_t grh_size = 40;

// `packet_bytes` is the UDP payload: BTH to ICRC.
void write_grh(std::span<std::byte, grh_size> to, const AddressPair& addresses, std::size_t packet_bytes);

}  // namespace verbena::wire

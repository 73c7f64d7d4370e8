// SPDX-License-Identifier: Apache-2.0
// The 40 bytes before the payload in a UD receive buffer: the network header of the packet (IBA
// Annex A17). For IPv6 this is the IPv6 header in place of a GRH; for IPv4, 20 zero bytes and the
// IPv4 header.
//
// A UDP socket does not deliver the IP header, so it is built from the known fields. An IPv4 header
// gets a valid checksum, because programs distinguish the two forms by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nic/wire/slot_ring.h"

namespace verbena::wire {

inline constexpr std::size_t grh_size = 40;

// `packet_bytes` is the size of the UDP payload, BTH to ICRC.
void write_grh(std::span<std::byte, grh_size> to, const AddressPair& addresses, std::size_t packet_bytes);

}  // namespace verbena::wire

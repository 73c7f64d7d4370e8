// SPDX-License-Identifier: Apache-2.0
// Atomic Extended Transport Header (IBA 9.3.4).
//
//     byte 0  virtual address:64
//          8  R_Key:32
//         12  swap or add data:64
//         20  compare data:64
#pragma once

#include <span>

#include "nic/wire/big_endian.h"
#include "nic/wire/slot.h"

namespace verbena::wire {

inline constexpr std::size_t atomic_eth_size = 28;

inline void write_atomic_eth(std::span<std::byte, atomic_eth_size> to, const AtomicEth& atomic) {
	store_be64(&to[0], atomic.address);
	store_be32(&to[8], atomic.rkey.value);
	store_be64(&to[12], atomic.swap_or_add);
	store_be64(&to[20], atomic.compare);
}

inline AtomicEth read_atomic_eth(std::span<const std::byte, atomic_eth_size> from) {
	return {.address = load_be64(&from[0]),
		.rkey = {load_be32(&from[8])},
		.swap_or_add = load_be64(&from[12]),
		.compare = load_be64(&from[20])};
}

}  // namespace verbena::wire

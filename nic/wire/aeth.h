// SPDX-License-Identifier: Apache-2.0
// ACK Extended Transport Header (IBA 9.3.5), and the 8 bytes that follow it in an atomic
// acknowledgement: the value of the remote memory before the operation.
//
//     byte 0  syndrome:8
//          1  MSN:24
//          4  original remote data:64 (ATOMIC ACKNOWLEDGE only)
//
// `Slot::word` holds an AETH as one big-endian word, read into host order.
#pragma once

#include <span>

#include "nic/wire/big_endian.h"

namespace verbena::wire {

inline constexpr std::size_t aeth_size = 4;
inline constexpr std::size_t atomic_ack_eth_size = 8;

inline void write_aeth(std::span<std::byte, aeth_size> to, std::uint32_t syndrome_and_msn) {
	store_be32(to.data(), syndrome_and_msn);
}
inline std::uint32_t read_aeth(std::span<const std::byte, aeth_size> from) { return load_be32(from.data()); }

inline void write_atomic_ack_eth(std::span<std::byte, atomic_ack_eth_size> to, std::uint64_t original) {
	store_be64(to.data(), original);
}
inline std::uint64_t read_atomic_ack_eth(std::span<const std::byte, atomic_ack_eth_size> from) {
	return load_be64(from.data());
}

}  // namespace verbena::wire

// SPDX-License-Identifier: Apache-2.0
// RDMA Extended Transport Header: the memory that an RDMA WRITE or READ names (IBA 9.3.3).
//
//     byte 0  virtual address:64
//          8  R_Key:32
//         12  DMA length:32
#pragma once

#include <span>

#include "nic/wire/big_endian.h"
#include "nic/wire/slot.h"

namespace verbena::wire {

inline constexpr std::size_t reth_size = 16;

inline void write_reth(std::span<std::byte, reth_size> to, const Reth& reth) {
	store_be64(&to[0], reth.address);
	store_be32(&to[8], reth.rkey.value);
	store_be32(&to[12], reth.dma_length);
}

inline Reth read_reth(std::span<const std::byte, reth_size> from) {
	return {.address = load_be64(&from[0]), .rkey = {load_be32(&from[8])}, .dma_length = load_be32(&from[12])};
}

}  // namespace verbena::wire

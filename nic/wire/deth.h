// SPDX-License-Identifier: Apache-2.0
// Datagram Extended Transport Header (IBA 9.3.2).
//
//     byte 0  Q_Key:32
//          4  reserved:8
//          5  source QP:24
//
// In `Deth::source` the reserved byte holds an index that never leaves the host; it is written as
// zero.
#pragma once

#include <span>

#include "nic/wire/big_endian.h"
#include "nic/wire/slot.h"

namespace verbena::wire {

inline constexpr std::size_t deth_size = 8;

inline void write_deth(std::span<std::byte, deth_size> to, const Deth& deth) {
	store_be32(&to[0], deth.q_key);
	store_be32(&to[4], deth.source_qp().value);
}

inline Deth read_deth(std::span<const std::byte, deth_size> from) {
	return {.q_key = load_be32(&from[0]), .source = (load_be32(&from[4]) & 0xffffff) << 8};
}

}  // namespace verbena::wire

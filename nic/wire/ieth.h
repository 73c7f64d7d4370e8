// SPDX-License-Identifier: Apache-2.0
// Invalidate Extended Transport Header: the R_Key that a SEND WITH INVALIDATE invalidates (IBA
// 9.3).
//
//     byte 0  R_Key:32
#pragma once

#include <span>

#include "nic/wire/big_endian.h"
#include "nic/wire/numbers.h"

namespace verbena::wire {

inline constexpr std::size_t ieth_size = 4;

inline void write_ieth(std::span<std::byte, ieth_size> to, Rkey rkey) { store_be32(to.data(), rkey.value); }
inline Rkey read_ieth(std::span<const std::byte, ieth_size> from) { return {load_be32(from.data())}; }

}  // namespace verbena::wire

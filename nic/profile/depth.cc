// SPDX-License-Identifier: Apache-2.0
#include "nic/profile/depth.h"

#include <algorithm>
#include <bit>

namespace verbena::profile {
namespace {

// rdma-core providers/irdma/uk.c: a queue has at most 32768 units of 32 bytes, of which the send
// queue keeps 258 and the receive queue 1. An entry of the greatest width takes 8 of them.
constexpr std::uint32_t units_most = 32768, send_reserved = 258, receive_reserved = 1;

std::uint32_t shift_of(std::uint32_t segments, std::uint32_t inline_bytes) {
	if (segments <= 1 && inline_bytes <= 8) return 0;
	if (segments < 4 && inline_bytes <= 39) return 1;
	return segments < 8 && inline_bytes <= 101 ? 2 : 3;
}

Depth of_units(std::uint32_t shift, std::uint32_t reserved) {
	return {.most = (units_most - reserved) >> shift, .shift = shift, .reserved = reserved};
}

}  // namespace

std::uint32_t Depth::granted(std::uint32_t wanted) const {
	return (std::bit_ceil(std::max((wanted << shift) + reserved, 1u)) - reserved) >> shift;
}

Depth send_depth(const Limits& limits, std::uint32_t segments, std::uint32_t inline_bytes) {
	if (limits.depths == Depths::entries) return {.most = limits.max_qp_wr};
	return of_units(shift_of(segments, inline_bytes), send_reserved);
}

Depth receive_depth(const Limits& limits, std::uint32_t segments) {
	if (limits.depths == Depths::entries) return {.most = limits.max_qp_wr};
	return of_units(shift_of(segments, 0), receive_reserved);
}

}  // namespace verbena::profile

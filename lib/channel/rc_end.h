// SPDX-License-Identifier: Apache-2.0
// The parameters of one end of an RC connection, which the set-up carries to the other end.
#pragma once

#include <cstdint>

#include "lib/verbs/objects.h"

namespace verbena::channel {

struct RcEnd {
	std::uint32_t qpn = 0;
	std::uint32_t psn = 0;  // the first one that it sends
	std::uint16_t lid = 0;  // InfiniBand only
	ibv_gid gid{};
	std::uint32_t mtu_bytes = 1024;
	std::uint32_t unit_bytes = 1024;  // the largest frame that it receives
	std::uint32_t credits = 1;        // frames that it receives before it has granted more
	std::uint32_t receive_depth = 1;  // the most credits that it grants at once
	// Larger messages, in bytes, are offered to it instead of sent, if both ends have `reads`.
	std::uint32_t eager_max = 0;
	// RDMA READs that it serves, and starts, at once; 0: no direct operations
	std::uint32_t reads = 0;
};

}  // namespace verbena::channel

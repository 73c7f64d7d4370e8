// SPDX-License-Identifier: Apache-2.0
// The entries of send and receive queues: how many a device allows, and how many it gives to a
// program that asks for fewer.
//
// Threads: pure functions and values.
#pragma once

#include <cstdint>

#include "nic/profile/limits.h"

namespace verbena::profile {

struct Depth {
	std::uint32_t most;  // entries
	// The device counts its queue in units, of which an entry takes 2^shift, and keeps some for
	// itself.
	std::uint32_t shift = 0, reserved = 0;

	// The entries that a queue has after the program has asked for `wanted`, 0 to `most`.
	std::uint32_t granted(std::uint32_t wanted) const;
};

// `segments` and `inline_bytes` are those that the program has asked for.
Depth send_depth(const Limits&, std::uint32_t segments, std::uint32_t inline_bytes);
Depth receive_depth(const Limits&, std::uint32_t segments);

}  // namespace verbena::profile

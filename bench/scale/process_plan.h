// SPDX-License-Identifier: Apache-2.0
// The number of processes that clients are spread over, and the descriptors that they need.
//
// Threads: thread-safe.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "bench/scale/swarm.h"

namespace verbena::scale {

// Descriptors that a process needs for itself and its device.
inline constexpr std::uint64_t descriptors_aside = 64;

// The number of open files that a process may have (hard limit).
std::uint64_t descriptors_max();
// Raises the soft limit of open files to the hard one.
void use_all_descriptors();

// The number of client processes that the swarm needs; `wanted` of 0 lets this function choose.
// Each TCP client needs a descriptor on both sides, and each process of logical clients at least
// one of the shared queue pairs. The error names the shortage that makes the run impossible.
std::expected<std::uint32_t, std::string> plan_processes(
	const SwarmOptions& swarm, std::uint32_t wanted, bool own_server, std::uint64_t descriptors_max);

}  // namespace verbena::scale

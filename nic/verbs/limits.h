// SPDX-License-Identifier: Apache-2.0
// The limits of the software devices in this process: those of the profile that VERBENA_PROFILE
// names (`verbena run --profile`), or the NIC's own. The variable is read once, at the first use.
//
// Threads: any.
// Errors: while VERBENA_PROFILE names no profile, the limits are the NIC's own, and
//   check_profile() keeps the NIC from starting.
#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

#include "nic/profile/limits.h"

namespace verbena::verbs {

const profile::Limits& device_limits();

// Returns 0, or EINVAL, and names the mistake on standard error: a program must not run without the
// profile that was asked for.
int check_profile();

// True if the device has queue pairs of this type.
bool has_type(ibv_qp_type type);
// The opcodes that IBA 9.4 allows on a type of queue pair, as a mask of ibv_wr_opcode bits, and
// those of them that the device has.
std::uint16_t opcodes_of_transport(ibv_qp_type type);
std::uint16_t opcodes_of(ibv_qp_type type);
// The same for ibv_qp_init_attr_ex::send_ops_flags.
std::uint64_t operations_of(ibv_qp_type type);
// The opcodes that these flags name.
std::uint16_t opcodes_of_operations(std::uint64_t operations);

// Refuses a call, as log::refuse(), because of the profile. The reason ends with the profile's
// name, and is printed at the level warn too.
[[gnu::cold, gnu::format(printf, 2, 3)]] int refuse_by_profile(int error, const char* format, ...);

// Refuses a figure that is above the device's, with EINVAL. `advice` ends the sentence.
[[gnu::cold]] int refuse_figure(
	const char* verb, const char* name, std::uint32_t wanted, std::uint32_t most, const char* advice = "");

}  // namespace verbena::verbs

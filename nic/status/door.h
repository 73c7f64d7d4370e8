// SPDX-License-Identifier: Apache-2.0
// The status of processes on the NIC, asked for at their doors (base/door.h) of the kind "status".
//
// Threads: any.
// Errors: errno values.
#pragma once

#include <chrono>
#include <expected>
#include <span>
#include <string_view>
#include <vector>

#include "base/door.h"
#include "nic/status/status.h"

namespace verbena::status {

// The kind of door at which a process gives its status.
inline constexpr std::string_view door_kind = "status";

// The status in an answer at this door. EPROTO: the answer is none, or one of another user.
std::expected<Process, int> read(const door::Found& door, const door::Answer& answer);

// All processes of this user (of all users for root) in this network namespace, by pid; those that
// do not answer are left out.
std::vector<Process> ask_all();
// Those whose answers are among these; `answers` are in the order of `doors`.
std::vector<Process> all_in(std::span<const door::Found> doors, std::span<const door::Answer> answers);

}  // namespace verbena::status

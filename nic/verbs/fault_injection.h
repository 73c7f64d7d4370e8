// SPDX-License-Identifier: Apache-2.0
// The faults that VERBENA_FAULTS asks for (nic/faults, `verbena run --faults`).
//
// Threads: network_of_environment() under the mutex of the process's state; report_faults() at the
//   end of the process.
// Errors: a text that has a mistake is named on standard error, and EINVAL keeps the NIC from
//   starting: a program must not run without the faults that were asked for.
#pragma once

#include <expected>
#include <memory>

#include "nic/engine/engine.h"
#include "nic/faults/network.h"

namespace verbena::verbs {

// Null: the variable is not set.
std::expected<std::unique_ptr<faults::Network>, int> network_of_environment();

// Prints how many packets of the engine met which fault. It must have a network. Throws as
// Engine::leave_behind_nothing().
void report_faults(engine::Engine&);

}  // namespace verbena::verbs

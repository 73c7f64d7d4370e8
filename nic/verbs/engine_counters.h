// SPDX-License-Identifier: Apache-2.0
// The counters of a running engine: their present values, and their text at the end of the process
// (`verbena run --stats`).
//
// Threads: any that does not hold the engine's lock.
#pragma once

#include "nic/engine/engine.h"
#include "nic/verbs/counters.h"

namespace verbena::verbs {

// Reads all values but the device's, CounterValues::link_downs.
void read_counters(engine::Engine&, CounterValues&);

// Prints the counters that are not 0 on standard error.
void print_stats(engine::Engine&);

}  // namespace verbena::verbs

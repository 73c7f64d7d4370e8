// SPDX-License-Identifier: Apache-2.0
// The counter files that the program has open. Their text follows the counters while they are
// open, because programs open such a file once and read it again and again (perftest -W).
//
// Threads: open_counter() from any thread that does not hold the engine's lock; show_counters()
//   under the engine's lock.
// Lifetime: a file is given up some time after the program has closed the descriptor that it got
//   from open(2). A duplicate that it still has then keeps the last number.
#pragma once

#include <string_view>

#include "nic/engine/engine.h"

namespace verbena::verbs {

// The descriptor of a new file; `flags` are those of open(2). -1 with errno.
int open_counter(std::string_view device, std::string_view counter, int flags);
// True if the program may have a file open.
bool counters_are_open();
// Writes the present values into the files: Engine::Events::counted.
void show_counters(engine::Engine&);

// In the child of a fork: the files belong to the parent.
void forget_open_counters();

}  // namespace verbena::verbs

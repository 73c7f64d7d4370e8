// SPDX-License-Identifier: Apache-2.0
// Functions in the tables of libibverbs that are replaced by others, which call them.
//
// Threads: tables are filled before the program has the object; the kept functions may be read by
//   any thread.
#pragma once

#include <atomic>

namespace verbena::verbs {

// Puts `function` into the table, and keeps the one that was there.
template <class Slot, class Function> void replace(std::atomic<Slot>& kept, Slot& slot, Function function) {
	kept.store(slot, std::memory_order_relaxed);
	slot = function;
}

}  // namespace verbena::verbs

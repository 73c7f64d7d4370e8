// SPDX-License-Identifier: Apache-2.0
// The cost of checking every byte of every message (--verify): each repetition is measured with and
// without it.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>

#include "bench/table/row.h"

namespace verbena::rcud {

// A sentence about rows in which every byte was checked; empty if there are none.
std::string verification_cost(std::span<const bench::Json> rows);

}  // namespace verbena::rcud

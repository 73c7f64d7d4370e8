// SPDX-License-Identifier: Apache-2.0
// Compares the rows of a table with its environment: the number of repetitions that the command
// asked for, and the distances between the processors.
//
// Threads: pure functions.
#pragma once

#include <span>

#include "bench/judge/findings.h"
#include "bench/table/row.h"

namespace verbena::bench {

// `findings` has an entry for each row; rows that are invalid already are left out.
void examine_environment(const Table& table, std::span<Findings> findings);

}  // namespace verbena::bench

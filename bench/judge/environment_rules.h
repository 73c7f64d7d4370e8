// SPDX-License-Identifier: Apache-2.0
// Compares the rows of a table with its environment: the number of repetitions that the command
// asked for, and the distances between the processors.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>

#include "bench/judge/findings.h"
#include "bench/table/row.h"

namespace verbena::bench {

// `findings` has an entry for each row; rows that are invalid already are left out.
void examine_environment(const Table& table, std::span<Findings> findings);

// Says which lines are missing that every table of ours has; empty if none, or if the table has no
// repetitions.
std::string remark_on_environment(const Table& table);

}  // namespace verbena::bench

// SPDX-License-Identifier: Apache-2.0
// The cell that a repetition names, by which no row can show the repetitions of another one.
// Earlier versions wrote no cell for some experiments. Their rows stay valid with a remark, and the
// table as a whole has one; so does a table from which a forger deleted the names with all that
// came later.
//
// Threads: pure functions.
#pragma once

#include "bench/judge/experiment.h"

namespace verbena::bench {

// The cell that the repetition names, if any, must be `title`, that of its row.
void examine_cell_name(const Json& repetition, const std::string& title, Findings& findings);

// Either all repetitions of a table name their cell, or none does. Those with a number that came
// later than the names, and those of a table that states its distance, name it.
void examine_cell_names(const Table& table, std::span<Findings> findings);

// Says how many rows have repetitions that name no cell; empty if there are none.
std::string remark_on_cells(const Table& table);

}  // namespace verbena::bench

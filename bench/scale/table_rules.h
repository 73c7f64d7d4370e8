// SPDX-License-Identifier: Apache-2.0
// The rules for rows beside each other, and for the environment of their table.
//
// not comparable
// - The clients of a row did other work than those of the rows beside it (messages, pauses,
//   stagger, size, window). The work of the published rows is known from their command lines.
// - The clients of a row cannot have been connected at once: the published program has a thread for
//   each client, and the row has far fewer threads than clients.
// invalid
// - The environment has costs or limits of clients (bench/scale/capacity.h) that do not follow from
//   the rows.
//
// Threads: pure functions.
#pragma once

#include <span>

#include "bench/judge/findings.h"
#include "bench/table/row.h"

namespace verbena::scale {

// As bench::Experiment asks for it.
void examine_table(const bench::Table& table, std::span<bench::Findings> findings);

}  // namespace verbena::scale

// SPDX-License-Identifier: Apache-2.0
// The forms in which a table is shown besides CSV, JSON and Markdown. They have rows of our own
// system only.
//
// Threads: pure functions, for bench::Outputs::as_markdown.
#pragma once

#include <span>
#include <string>

#include "bench/table/row.h"

namespace verbena::kvbench {

// The published form: headings, and lines of size, gigabytes (10^9 bytes) per second and unit.
std::string to_published(const bench::Table& table, std::span<const bench::Column>);

// Compares both protocols at every size: which one is faster, if their intervals do not overlap,
// and which --eager-max follows. Leaves out invalid rows.
std::string to_crossover(const bench::Table& table, std::span<const bench::Column>);

}  // namespace verbena::kvbench

// SPDX-License-Identifier: Apache-2.0
// The rules for the messages of a repetition: their number, their rate and their latency.
//
// Threads: pure functions.
// Errors: Json::exception if the repetition has not what a repetition has.
#pragma once

#include "bench/judge/findings.h"
#include "bench/table/row.h"

namespace verbena::scale {

// Sums of the same times may differ in the last digits.
inline constexpr double rounding = 1e-6;

void examine_traffic(const bench::Json& row, const bench::Json& repetition, bench::Findings&);
// Whether a row moves more than the link of a hardware device carries.
void examine_link(const bench::Json& row, const bench::Table& table, bench::Findings&);

}  // namespace verbena::scale

// SPDX-License-Identifier: Apache-2.0
// Judges the rows of a table beside each other.
//
// The throughput of one operation over one protocol changes smoothly with the size. So a row is
//   suspect      if it is below 0.7 of the value interpolated from its neighbours: the run was
//                disturbed, or too short. Or if another row has more repetitions, although the
//                table is finished;
//   mislabelled  if it is the smallest size of rendezvous, at least 1.5 times the value
//                extrapolated from the other sizes of rendezvous, and on the curve of eager. Only a
//                published row can be: ours count the protocol that they use.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>

#include "bench/judge/findings.h"
#include "bench/table/row.h"

namespace verbena::kvbench {

// As bench::Experiment asks for it.
void examine_table(const bench::Table& table, std::span<bench::Findings> findings);

// A sentence if no size has both protocols: then the table cannot show which one is faster.
std::string remark_on_protocols(const bench::Table& table);

}  // namespace verbena::kvbench

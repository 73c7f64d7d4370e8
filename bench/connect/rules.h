// SPDX-License-Identifier: Apache-2.0
// The rules for rows of this experiment, beside those for every experiment (bench/judge).
//
// invalid
// - A repetition failed, or the server counted other connections than the client made.
// - A repetition is one of another cell.
// - A rate is not the count over the elapsed time; a connect took longer than all of them together.
// - A sum of times is not that of the histogram or of the percentiles.
// - Histograms do not have one value for each connection, or the parts of a connect do not add up
//   to it.
// - Little's law does not hold: more connects were under way than there are clients, or next to
//   none for a second, although a client begins the next connect as soon as one is established.
// suspect
// - Few connects were under way: something else kept the client busy.
//
// Threads: pure functions.
#pragma once

#include "bench/judge/experiment.h"

namespace verbena::connect {

inline constexpr double clients_max = 1024, count_max = 50'000;

// 0 if the half of the repetition has not ended.
double connects_per_s(const bench::Json& repetition);
double disconnects_per_s(const bench::Json& repetition);

void examine_repetition(const bench::Json& row, const bench::Json& repetition, bench::Findings&);
void examine_row(const bench::Json& row, const bench::Table&, bench::Findings&);

}  // namespace verbena::connect

// SPDX-License-Identifier: Apache-2.0
// The rules for repetitions and rows of this experiment, beside those for every experiment
// (bench/judge): what cannot be true, and what needs an explanation.
//
// invalid
// - The repetition measured another cell than its row has.
// - The counts do not add up: clients that succeeded and failed are not all clients; the server had
//   other clients at once, other logical clients, other queue pairs or other echoes than the
//   clients report; latencies are not those of the echoes.
// - A time is not possible: a client connected for longer than all of them together, a mean is not
//   that of its histogram, or clients echoed more than an offered rate or their pauses allow.
// - Little's law does not hold (examine_little in bench/judge/judge.h); or clients that do nothing
//   but send and wait had nothing under way.
// - A device of hardware moved more than its link carries.
// suspect
// - A client failed.
// - The measured time was cut short, the offered rate was not reached, or the server and the
//   clients counted different rates.
// - The clients did unequal work: Jain's index is below 0.95.
//
// Threads: pure functions.
#pragma once

#include "bench/judge/experiment.h"

namespace verbena::scale {

// As bench::Experiment asks for them.
void examine_repetition(const bench::Json& row, const bench::Json& repetition, bench::Findings&);
void examine_row(const bench::Json& row, const bench::Table& table, bench::Findings&);

}  // namespace verbena::scale

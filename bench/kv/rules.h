// SPDX-License-Identifier: Apache-2.0
// The rules for rows of this experiment, beside those for every experiment (bench/judge): what
// cannot be true, and what needs an explanation. bench/kv/curves.h has those for a whole table.
//
// invalid
// - An operation failed, or a value was not the one that was set.
// - A repetition names another cell than its row, did more operations than were asked for, or
//   ended early before its time was over.
// - The bytes are not operations times the size of a value, or the rate is not operations by time.
// - The number of latencies is not that of the operations, their sum is not that of the histogram,
//   or a latency is longer than the run.
// - More operations were under way than the window allows, or, in a closed loop of at least a
//   second quarter, next to none (Little's law, examine_little in bench/judge/judge.h). A window
//   that was never full, and clients that did nothing, although there was work for all of them.
// - The counts of the protocol do not fit the one that was asked for: every operation of
//   `rendezvous` is one, none of `eager` and none over TCP is; a SET is not read, a GET is not
//   written; each operation by message takes two messages at least.
// - Two repetitions are equal in every number.
// - A device of hardware moved more than its link carries.
// - A word or a combination of words that this experiment does not have.
// suspect
// - One-sided GETs had to ask by message, memory was registered during the timed operations, or
//   fewer than 100 operations were timed.
// - Repetitions differ by more than half of their median.
// - A table that is finished has rows with more repetitions (bench/kv/curves.h).
//
// Threads: pure functions.
#pragma once

#include "bench/judge/experiment.h"

namespace verbena::kvbench {

// As bench::Experiment asks for them.
void examine_repetition(const bench::Json& row, const bench::Json& repetition, bench::Findings&);
void examine_row(const bench::Json& row, const bench::Table& table, bench::Findings&);

}  // namespace verbena::kvbench

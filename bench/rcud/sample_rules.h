// SPDX-License-Identifier: Apache-2.0
// The rules for the sampled latencies of a repetition: their number, the longest one, and Little's
// law.
//
// Threads: pure functions.
#pragma once

#include "bench/judge/experiment.h"

namespace verbena::rcud {

// Examines the latencies of one repetition. Throws Json::exception if it has no counts.
void examine_samples(const bench::Json& row, const bench::Json& repetition, bench::Findings&);

// Compares the number of latencies in the repetitions of a row with the number of messages. The
// environment's `settings` have the length of the lists in which they were posted.
void examine_number_of_samples(const bench::Json& row, const bench::Table& table, bench::Findings&);

}  // namespace verbena::rcud

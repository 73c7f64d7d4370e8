// SPDX-License-Identifier: Apache-2.0
// Finds repetitions that are copies of another one of the same table. Two runs never take the same
// times to the nanosecond, so two repetitions that agree in all times (Experiment::times) are one.
// So are two with the same histogram, if it has many buckets. Other keys are not compared: a forger
// changes them at will.
//
// Threads: pure functions.
#pragma once

#include <span>

#include "bench/judge/experiment.h"

namespace verbena::bench {

// `findings` has an entry for each row. Each copy is found invalid; the first one of them is not.
void examine_copies(const Experiment& experiment, const Table& table, std::span<Findings> findings);

}  // namespace verbena::bench

// SPDX-License-Identifier: Apache-2.0
// The tables of this experiment: its columns, and how a row follows from its repetitions.
//
// Rates, processor times and pinned memory are medians over the repetitions; counts are sums;
// latencies are those of all requests of all repetitions together. p99_us_low and p99_us_high are
// the interval of the repetitions' own P99.
//
// Threads: constant data and pure functions.
#pragma once

#include "bench/judge/experiment.h"
#include "bench/rpc/cell.h"

namespace verbena::rpcbench {

const bench::Experiment& experiment();

// The row of a cell with its repetitions (json_of); without any, it has no figures. Not judged yet.
bench::Json row_of(const CellOptions& cell, bench::Json repetitions);

}  // namespace verbena::rpcbench

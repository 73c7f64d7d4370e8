// SPDX-License-Identifier: Apache-2.0
// The tables of this experiment: its columns, and how a row follows from its repetitions. A row is
// one cell of ours, or redis with the same number of connections.
//
// Threads: constant data and pure functions.
#pragma once

#include "bench/judge/experiment.h"

namespace verbena::scale {

const bench::Experiment& experiment();

// The row of a cell (columns_of() or redis_columns()) with its repetitions (repetition.h); without
// any, it has no figures. Not judged yet.
bench::Json row_of(const bench::Json& cell, bench::Json repetitions);

}  // namespace verbena::scale

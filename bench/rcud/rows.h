// SPDX-License-Identifier: Apache-2.0
// The tables of this experiment: its columns, and how a row follows from its repetitions.
//
// Threads: constant data and pure functions.
#pragma once

#include "bench/judge/experiment.h"
#include "bench/rcud/cell.h"
#include "bench/rcud/repetition.h"

namespace verbena::rcud {

const bench::Experiment& experiment();

// The row of a cell with its repetitions (json_of); without any, it has no figures. Not judged yet.
bench::Json row_of(
	const Cell& cell, const std::string& device, std::uint32_t mtu, std::uint64_t iters, bench::Json repetitions);

}  // namespace verbena::rcud

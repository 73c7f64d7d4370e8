// SPDX-License-Identifier: Apache-2.0
// The table of this experiment: a row for each number of clients.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "bench/connect/run.h"
#include "bench/judge/experiment.h"

namespace verbena::connect {

const bench::Experiment& experiment();

// A repetition as it stands in a table: the counts, the elapsed times, `failure`, and the
// histograms total_ns, disconnect_ns, and one for each part (address_ns, ...).
bench::Json json_of(const Repetition& repetition);

// The row of a cell; it has no figures if there are no repetitions.
bench::Json row_of(std::string_view connect, std::uint32_t clients, std::uint32_t count, bench::Json repetitions);

}  // namespace verbena::connect

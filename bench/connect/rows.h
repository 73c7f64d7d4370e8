// SPDX-License-Identifier: Apache-2.0
// The table of this experiment: a row for each number of clients.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bench/connect/run.h"
#include "bench/judge/experiment.h"

namespace verbena::connect {

const bench::Experiment& experiment();

// "4 clients by rdmacm"
std::string title(const bench::Json& row);

// A repetition as it stands in a table: `cell` (the title of the cell that was measured), the
// counts, the elapsed times, `failure`, the sums of the connects' and disconnects' times, and the
// histograms total_ns, disconnect_ns, and one for each part (address_ns, ...).
bench::Json json_of(std::string_view connect, const Repetition& repetition);

// The row of a cell; it has no figures if there are no repetitions.
bench::Json row_of(std::string_view connect, std::uint32_t clients, std::uint32_t count, bench::Json repetitions);

}  // namespace verbena::connect

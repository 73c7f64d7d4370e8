// SPDX-License-Identifier: Apache-2.0
// A Repetition as it stands in a table.
//
// It is an object with `cell` (the name of the cell that was measured), the counts and times of the
// Repetition, payload_bytes, operations_per_second, the percentiles, core_to_core_ns (null if
// unknown), bytes_copied_per_second (of large values alone), `failure`, and in JSON the histogram
// latency_ns. A repetition of another system has no counts of our protocol.
//
// Threads: pure functions.
// Errors: Json::exception if a repetition has not what a repetition has.
#pragma once

#include <string>

#include "bench/kv/cell.h"
#include "bench/table/row.h"

namespace verbena::kvbench {

// `cell` is the name of the row (cell_name in bench/kv/rows.h).
bench::Json json_of(const Cell& cell, const std::string& name, const Repetition& run);

double per_second(const bench::Json& repetition);
// Operations under way on average: exact, because the latency of every operation is in the sum.
double mean_depth(const bench::Json& repetition);
// The operations whose value moved by rendezvous.
std::uint64_t by_rendezvous(const bench::Json& repetition);

}  // namespace verbena::kvbench

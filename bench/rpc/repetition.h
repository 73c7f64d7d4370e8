// SPDX-License-Identifier: Apache-2.0
// One repetition of a cell, as it stands in a table.
//
// It is an object with `cell` (the title of the cell that was measured), requests, failed, served,
// callers, payload_bytes (of the requests that counted), seconds, latency_sum_us, the processor
// times, the client's and the server's counts, core_to_core_ns, qps, the percentiles of the
// latencies, `failure`, and in JSON the histogram latency_ns.
//
// Threads: pure functions.
#pragma once

#include <expected>
#include <string>

#include "bench/rpc/cell.h"
#include "bench/table/row.h"

namespace verbena::rpcbench {

// A run that failed has the counts of none, and its error as `failure`.
bench::Json json_of(const CellOptions& cell, const std::expected<Outcome, std::string>& run);

// Requests a second; 0 if no time was measured. Throws Json::exception if there are no counts.
double qps_of(const bench::Json& repetition);
// In microseconds; 0 if no request counted.
double mean_of(const bench::Json& repetition);

}  // namespace verbena::rpcbench

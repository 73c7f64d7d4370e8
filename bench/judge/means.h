// SPDX-License-Identifier: Apache-2.0
// The mean of latencies whose sum is exact, compared with their percentiles.
//
// Threads: pure functions.
#pragma once

#include "bench/judge/repetitions.h"

namespace verbena::bench {

struct Bounds {
	double least = 0, most = 0;
};

// The bounds that percentiles set on the mean, in the unit of their columns: a share of 1 - f of
// all values is at least the percentile of f. A percentile that the row lacks is skipped; without
// the maximum `most` is infinite.
Bounds mean_by_percentiles(const Json& row, const Latency& names);

// `mean` is in the unit of the columns.
void examine_mean(const Json& row, double mean, const Latency& names, Findings& findings);
// A row without its maximum is invalid: its mean would have no upper bound.
void examine_maximum(const Json& row, const Latency& names, Findings& findings);

}  // namespace verbena::bench

// SPDX-License-Identifier: Apache-2.0
// Histograms in tables: {"count":3,"min":90,"max":210,"buckets":[[90,1],[207,2]]}. A bucket is the
// last value that it stands for, and its count (base/histogram.h); empty buckets are left out.
//
// Threads: pure functions.
#pragma once

#include <expected>
#include <string>

#include "base/histogram.h"
#include "bench/table/row.h"

namespace verbena::bench {

Json to_json(const Histogram& histogram);
// The error says why the JSON is no histogram: `count` is not the sum, buckets are not in order, or
// `min` and `max` are not in the first and the last.
std::expected<Histogram, std::string> histogram_of(const Json& json);

// Whether an object has the keys of a histogram.
bool is_histogram(const Json& json);
// The same list without the histograms in its objects.
Json without_histograms(const Json& list);

}  // namespace verbena::bench

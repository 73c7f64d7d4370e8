// SPDX-License-Identifier: Apache-2.0
// The figures that experiments compute from the repetitions of a cell in the same way, and the
// examination of latencies.
//
// Threads: pure functions.
// Errors: Json::exception if a repetition has not what the caller says that it has. The judge takes
//   it for a finding.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "bench/judge/findings.h"
#include "bench/table/row.h"

namespace verbena::bench {

std::uint64_t count_in(const Json& repetition, std::string_view name);
double number_in(const Json& repetition, std::string_view name);  // finite, 0 or more
// The numbers of all repetitions, without those that are null.
std::vector<double> numbers_in(const Json& repetitions, std::string_view name);

// Sets NAME to the median of the values, NAME_low and NAME_high to its 95 % interval
// (base/statistics.h); to null if there are no values.
void add_median(Json& summary, const std::string& name, const std::vector<double>& values);
// Sets NAME to the median, or to null.
void add_plain_median(Json& summary, const std::string& name, const std::vector<double>& values);

// The latencies of a repetition: a histogram in nanoseconds, and columns of its percentiles, from
// p50 to p99.99 and the maximum, in repetitions and in rows. With the prefix "connect_" and the
// suffix "_us" the first column is connect_p50_us.
struct Latency {
	std::string_view histogram = "latency_ns";
	std::string_view prefix = "", suffix = "_us";
	double unit_ns = 1e3;
};

// Sets the histogram and its percentiles in a repetition.
void add_latency(Json& repetition, const Histogram& latency, const Latency& names);
// Sets the percentiles of a row: those of all repetitions together. Sets nothing if the
// repetitions came from CSV, which has no histograms.
void summarize_latency(Json& summary, const Json& repetitions, const Latency& names);
// Examines the percentiles of a repetition. Returns its histogram if it has a correct one.
std::optional<Histogram> examine_latency(const Json& repetition, const Latency& names, Findings& findings);
// Only CSV has no histograms: a repetition of JSON that has percentiles has theirs.
void examine_presence(const Json& repetition, const Latency& names, Findings& findings);
// Examines the percentiles of a row: they ascend, and each lies between those of the repetitions.
void examine_percentiles(const Json& row, const Latency& names, Findings& findings);
// The mean in nanoseconds; the largest values of each bucket stand for all of it, so the result is
// at most 1.6 % too high. 0 if nothing was recorded.
double mean_of(const Histogram& latency);

}  // namespace verbena::bench

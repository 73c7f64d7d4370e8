// SPDX-License-Identifier: Apache-2.0
// One repetition of a cell as it stands in a table, and the figures that follow from it.
//
// A repetition of ours is an object with `cell` (columns_of), `failure`, the clients' counts (good,
// connected, echoes, failed_*), times in nanoseconds, the counts of our own server (null if the
// server is elsewhere), the percentiles, and in JSON the histograms connect_ns and latency_ns.
// `counted` echoes in `counted_ns` are the rate: with a duration the server's count in the measured
// time, else all echoes from the first message to the last.
//
// A repetition of redis has what redis-benchmark printed, and the time that it ran.
//
// Threads: pure functions.
// Errors: Json::exception if an object has not what a repetition has.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "bench/judge/repetitions.h"
#include "bench/scale/outcome.h"
#include "bench/scale/redis.h"

namespace verbena::scale {

inline constexpr bench::Latency connect_times{
	.histogram = "connect_ns", .prefix = "connect_", .suffix = "_ms", .unit_ns = 1e6};
inline constexpr bench::Latency echo_times{
	.histogram = "latency_ns", .prefix = "latency_", .suffix = "_ms", .unit_ns = 1e6};

bench::Json json_of(const Outcome& run);
bench::Json json_of(const RedisRun& run, const bench::Json& cell, std::optional<double> round_trip_ns);
// A repetition that could not be measured.
bench::Json failed_repetition(const bench::Json& cell, const std::string& failure);

bool has_failed(const bench::Json& repetition);
// Whether a server of our own reported its counts.
bool has_server(const bench::Json& repetition);
// The column for the clients that failed by this cause: "failed_timed_out".
std::string column_of(Cause cause);
// The number of clients, whether they succeeded or not.
std::uint64_t clients_of(const bench::Json& repetition);

// A figure of a repetition; empty if it does not have it.
using Figure = std::function<std::optional<double>(const bench::Json& repetition)>;
std::optional<double> rate_of(const bench::Json& repetition);  // echoes a second
// In milliseconds.
std::optional<double> mean_of(const bench::Json& repetition, const char* sum_ns, const char* count);
std::optional<double> fairness_of(const bench::Json& repetition);  // Jain's index
// The growth of the server's resident memory up to `name`, for each connection.
std::optional<double> kib_per_connection(const bench::Json& repetition, const char* name);
// NAME in each second of TIME, which is in nanoseconds.
std::optional<double> per_second(const bench::Json& repetition, const char* name, const char* time_ns);
// The values of all repetitions that did not fail.
std::vector<double> values_of(const bench::Json& repetitions, const Figure& figure);

}  // namespace verbena::scale

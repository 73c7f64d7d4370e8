// One repetition of a cell: what was measured, and how it stands in a table.
//
// In a table it is an object with iters, posted, completed, sender_ns, the counts of the receiver
// (Delivery), payload_bytes, mops, the percentiles, the round trips, `failure`, and in JSON the
// histogram latency_ns.
//
// Threads: values and pure functions.
#pragma once

#include <optional>
#include <string>

#include "base/histogram.h"
#include "bench/rcud/traffic.h"
#include "bench/table/row.h"

namespace verbena::rcud {

// If `failure` is not empty, the counts are those known at that moment.
struct Repetition {
	std::uint64_t iters = 0;
	std::uint64_t posted = 0, completed = 0;
	std::uint64_t sender_ns = 0;  // the sender's time for all of them (Sent::took_ns)
	Delivery delivery;
	Histogram latency_ns;
	std::optional<double> rtt_before_ns, rtt_after_ns;
	std::string failure;
};

bench::Json json_of(const Cell& cell, const Repetition& repetition);

// Both throw Json::exception if the object has no such count.
std::uint64_t count_of(const bench::Json& repetition, const char* name);
double mops_of(const bench::Json& repetition);  // 0 if the repetition failed

struct Percentile {
	const char* column;
	double fraction;
};
inline constexpr Percentile percentiles[] = {
	{"p50_us", 0.5}, {"p99_us", 0.99}, {"p999_us", 0.999}, {"p9999_us", 0.9999}};

// In microseconds; null if there is no latency.
bench::Json percentile_of(const Histogram& latency, double fraction);

}  // namespace verbena::rcud

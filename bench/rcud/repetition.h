// SPDX-License-Identifier: Apache-2.0
// One repetition of a cell: what was measured, and how it stands in a table.
//
// In a table it is an object with `cell` (the title of the cell that was measured), iters, posted,
// completed, sender_ns, the counts of the receiver (Delivery), payload_bytes, mops, `latencies`
// (the number of samples), the percentiles, the round trips, `checked` (stamps or bytes;
// mops_unverified, if bytes), `failure`, and in JSON the histogram latency_ns. With Cell::qps it
// also has receiver_qps, the queue pairs at the receiver, and qps_used, those of the senders from
// which a message was delivered.
//
// Threads: values and pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

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
	bool verified = false;  // every byte was checked, not only stamps
	double mops_unverified = 0;  // verified: the rate of as many messages without that
	Histogram latency_ns;
	std::optional<double> rtt_before_ns, rtt_after_ns;
	std::string failure;
};

bench::Json json_of(const Cell& cell, const Repetition& repetition);

// Throws Json::exception if the object has no counts.
double mops_of(const bench::Json& repetition);  // 0 if the repetition failed

}  // namespace verbena::rcud

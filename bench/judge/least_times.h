// SPDX-License-Identifier: Apache-2.0
// Times that no measured one is below. A message that another process has answered took at least
// a cache line there and back, and nothing is counted faster than once a nanosecond.
//
// Threads: pure functions.
#pragma once

#include <string_view>

#include "bench/judge/findings.h"
#include "bench/table/row.h"

namespace verbena::bench {

// Examines the mean, or the median, of latencies of a repetition. `what` names them in the plural.
// None is 0.
void examine_some_time(double ns, std::string_view what, Findings& findings);

// The same of messages that another process has answered: their latency is compared with the round
// trip of a cache line that the repetition states. Host and hypervisor may move the processors
// while it runs, so a latency is invalid only if it is far below.
void examine_answers(const Json& repetition, double ns, std::string_view what, Findings& findings);

// A count of more than one a nanosecond is invalid, and so are bytes of more than `most_per_ns`.
void examine_pace(double count, std::string_view what, double elapsed_ns, Findings& findings, double most_per_ns = 1);
// Payload in bytes a nanosecond: no memory and no link carries ten terabytes a second.
inline constexpr double bytes_per_ns_most = 10'000;

}  // namespace verbena::bench

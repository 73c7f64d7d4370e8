// SPDX-License-Identifier: Apache-2.0
// Times that no measured one is below. A message that another process has answered took at least
// a cache line there and back, and nothing is counted faster than once a nanosecond.
//
// Threads: pure functions.
#pragma once

#include <string_view>

#include "bench/judge/findings.h"
#include "bench/judge/repetitions.h"
#include "bench/table/row.h"

namespace verbena::bench {

// Examines the mean, or the median, of latencies of a repetition. `what` names them in the plural.
// None is 0.
void examine_some_time(double ns, std::string_view what, Findings& findings);

// The same of messages that another process has answered: their mean and their median, if the
// repetition has it, are compared with the round trip of a cache line that the repetition states.
// Host and hypervisor may move the processors while it runs, so a latency is invalid only if it is
// far below.
void examine_answers(
	const Json& repetition, const Latency& names, double mean_ns, std::string_view what, Findings& findings);

// No more such messages can have been answered one after the other than there were round trips:
// `window` are under way at once.
void examine_round_trips(const Json& repetition, double messages, double window, double elapsed_ns, Findings& findings);

// A count of more than `most_per_ns` a nanosecond is invalid.
void examine_pace(double count, std::string_view what, double elapsed_ns, Findings& findings, double most_per_ns = 1);
// One process posts no more messages, and serves no more requests, than one in 5 ns; and no memory
// and no link carries more bytes of payload than 200 GB a second.
inline constexpr double messages_per_ns_most = 0.2, bytes_per_ns_most = 200;

}  // namespace verbena::bench

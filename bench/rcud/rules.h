// SPDX-License-Identifier: Apache-2.0
// The rules for rows of this experiment, beside those for every experiment (bench/judge): what
// cannot be true, and what needs an explanation.
//
// invalid
// - gib is not mops * msg / 2^30, even within the rounding of the printed digits.
// - UD messages larger than the MTU were delivered. A UD message has one packet (IBA 9.8.3), so
//   such a send emits nothing. The MTU is one of InfiniBand's, and that of the environment.
// - Nothing was delivered, messages arrived damaged, or RC lost, repeated or reordered messages, or
//   brought those of another run.
// - Some repetitions checked every byte and others only stamps, or there is no rate without the
//   check of every byte beside the one with it.
// - The counts do not add up: more was delivered, completed or sampled than was posted, or less
//   was sampled. A latency is longer than the run.
// - A repetition is one of another cell, or op, window_mode or a possible window is missing.
// - Many queue pairs (qp_sweep): RC has not as many at the receiver, or UD more than one; or all
//   messages were delivered, but not from each queue pair.
// - Little's law does not hold (examine_little in bench/judge/judge.h).
// - A device of hardware moved more than its link carries.
// suspect
// - The receiver's rate is half as high again as the sender's, or in a long run 5 % higher; or,
//   with credits, its time is half as long again.
// - The sender keeps little of its window under way (sample_rules.h).
// - gib is mops * msg / 2^30 only because both have few digits.
// - UD moves over 2 % more bytes a second than the plateau that RC reaches at the same window, so
//   more than the link seems to carry. RC has a plateau if its two largest sizes differ by less
//   than 10 %. The software device (vb_*) has no link, so there the rule applies only to rows whose
//   receiver did not count.
// - More than 1 % of the messages were lost: the sender was faster than the receiver, so the rate
//   is no throughput. Or credits were lost, and the run ended early; or a queue pair delivered
//   nothing.
//
// Threads: pure functions.
#pragma once

#include "bench/judge/experiment.h"

namespace verbena::rcud {

// As bench::Experiment asks for them.
void examine_repetition(const bench::Json& row, const bench::Json& repetition, bench::Findings&);
void examine_row(const bench::Json& row, const bench::Table& table, bench::Findings&);

// One sweep has one device and one MTU, and either all repetitions name their cell or none does.
void examine_table(const bench::Table& table, std::span<bench::Findings> findings);

}  // namespace verbena::rcud

// SPDX-License-Identifier: Apache-2.0
// The rules for rows of this experiment, beside those for every experiment (bench/judge).
//
// invalid
// - Gb/s is not QPS x size, beyond 1 % and the rounding of the printed digits: published rates and
//   throughputs were counted separately.
// - More requests were under way than there were callers, or next to none (Little's law).
// - A request failed or had a wrong answer, or the server served fewer requests than were answered.
// - A repetition does not fit its row: it names another cell, has another number of callers,
//   connections or payload bytes, or was shorter than the row says.
// - The latencies are not those of the requests: their number, or a mean that percentiles and
//   histogram do not allow.
// - The transport's counts contradict the cell: frames over RDMA in a row over TCP, or a behaviour
//   that was on in a row without it.
// - A repetition stands in its row twice, or a row of ours has none: every cell can be measured.
// - Processes used more processor time than the machine has, or a link of hardware carried more
//   than its rate.
// suspect
// - Fewer requests were under way than there were callers: the client was too slow. Not if each
//   call makes its connection: the time between calls is no part of a call.
// - The measured time was much longer than asked for.
// - A row has fewer repetitions than others, though the sweep was not ended early.
// - Published rows only, which have no mean: P90 is below the mean that concurrency and QPS give.
//
// Threads: pure functions.
#pragma once

#include <span>

#include "bench/judge/experiment.h"

namespace verbena::rpcbench {

// As bench::Experiment asks for them.
void examine_repetition(const bench::Json& row, const bench::Json& repetition, bench::Findings&);
void examine_row(const bench::Json& row, const bench::Table& table, bench::Findings&);
void examine_table(const bench::Table& table, std::span<bench::Findings> findings);

}  // namespace verbena::rpcbench

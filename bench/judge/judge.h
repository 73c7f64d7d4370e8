// SPDX-License-Identifier: Apache-2.0
// Judges whether the rows of a table can be true. The program that measures, `verbena check` and
// `verbena report` all use this judge. It does not believe a verdict that stands in a
// file.
//
// Each row is examined in this order:
//
// - Its values: a number is finite and not negative, a count is whole, no published column is
//   missing.
// - Its cell: no other row has the same.
// - Its repetitions: each is examined by itself, and none is a copy of another one of the table.
//   Each has the histograms of its latencies, unless the table is CSV. The row is summarized from
//   them once more; a row whose figures differ from that summary is invalid. So is a row of ours
//   without repetitions, unless it claims no figure. A published table has none; it is recognized
//   by having no column beyond the published ones, and no environment that our programs write.
// - Their number, which is the same in all rows of a sweep, unless it was ended early.
// - Its environment: the repetitions that the command asked for, and the distance.
// - Its figures, by the rules of the experiment (Experiment::examine_row and examine_table).
//
// Threads: pure functions.
#pragma once

#include <expected>
#include <initializer_list>
#include <string>
#include <vector>

#include "bench/judge/experiment.h"

namespace verbena::bench {

// One verdict for each row. The error says which published column the table does not have, so that
// it cannot be one of this experiment.
std::expected<std::vector<Verdict>, std::string> judge(const Experiment& experiment, const Table& table);

// The words for a table without evidence; report/tables.py has the same.
inline constexpr std::string_view no_evidence = "no repetitions: its figures are taken from the file";

// A sentence about the table as a whole: that of the experiment, and for a table that is not ours
// the words above if its figures have no repetitions; and the lines that its environment lacks.
// Empty if there is none.
std::string remark_on(const Experiment& experiment, const Table& table);

// Judges a table that was measured, and writes each verdict into the columns `validity` and
// `reason` of its row.
void judge_measured(const Experiment& experiment, Table& table);

// The word of a row in this column must be one of those that are known, if there is one.
void examine_word(
	const Json& row, std::string_view column, std::initializer_list<std::string_view> known, Findings& findings);

// Little's law: the mean number of messages under way is the rate times the mean latency. There is
// a tolerance, because latencies are sampled and the mean of samples has an
// error.
inline constexpr double little_tolerance = 1.25;
inline constexpr double little_minimum = 0.05;

// The messages that may be under way: at most `most`; and never next to none, if the sender does
// nothing but post and wait.
struct UnderWay {
	std::string_view what;  // in the plural
	double most;
	bool only_waits = false;
	double tolerance = little_tolerance;
};
// Says nothing if there is no rate or no latency.
void examine_little(double rate_per_s, double mean_latency_s, const UnderWay&, Findings&);

}  // namespace verbena::bench

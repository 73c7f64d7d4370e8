// SPDX-License-Identifier: Apache-2.0
// Test fixture: a small experiment, in which the rate of a row is the sum of the rates of its
// repetitions. `kind` names the cell and follows from the repetitions.
#pragma once

#include "bench/judge/experiment.h"

namespace verbena::bench::testing_tools {

inline constexpr Column columns[] = {
	{"size", Kind::count, Role::cell, true},
	{"rate", Kind::number, Role::result, true},
	{"kind", Kind::word, Role::cell},
	{"validity", Kind::word, Role::verdict},
	{"reason", Kind::word, Role::verdict},
	{"repetitions", Kind::list, Role::evidence},
	{"apart", Kind::list, Role::evidence},
};

inline constexpr std::string_view times[] = {"elapsed_ns"};

inline Json summarize(const Json&, const Json& repetitions) {
	double sum = 0;
	for (const Json& each : repetitions) sum += each.at("rate").get<double>();
	return {{"rate", sum}, {"kind", "sum"}};
}

inline constexpr Experiment sums{.name = "sums",
	.columns = columns,
	.title = [](const Json& row) { return word_of(row, "size") + " B"; },
	.times = times,
	.summarize = summarize,
	.examine_repetition =
		[](const Json&, const Json& repetition, Findings& findings) {
			if (repetition.contains("failure")) findings.invalid(repetition["failure"].get<std::string>());
		},
	.examine_row =
		[](const Json& row, const Table&, Findings& findings) {
			if (number_of(row, "rate")->value > 100) findings.suspect("fast");
		}};

}  // namespace verbena::bench::testing_tools

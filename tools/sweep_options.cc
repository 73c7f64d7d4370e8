// SPDX-License-Identifier: Apache-2.0
#include "tools/sweep_options.h"

#include <fmt/format.h>

#include "bench/sweep/interruption.h"
#include "tools/commands.h"

namespace verbena::tools {

void add_sweep(CLI::App& app, SweepFlags& flags) {
	app.add_option("--reps", flags.reps, "Repetitions, interleaved")
		->capture_default_str()
		->check(CLI::Range(1u, 1000u));
	add_output(app, flags.output);
	app.add_option("--resume", flags.resume, "JSON of an earlier run that was ended: measure what it lacks")
		->type_name("FILE");
}

std::expected<bench::OutputFiles, std::string> open_outputs(
	const SweepFlags& flags, const bench::Experiment& experiment, bench::Render as_markdown) {
	return bench::OutputFiles::open({.csv = flags.output.csv,
										.json = flags.output.json,
										.markdown = flags.output.markdown,
										.as_markdown = as_markdown},
		experiment.columns);
}

int run_sweep(const bench::Experiment& experiment, std::span<const std::unique_ptr<bench::Trial>> trials,
	const bench::DescribeEnvironment& describe, const SweepFlags& flags, bench::OutputFiles& files, Expects expects) {
	const bench::SweepEnd end = bench::sweep(experiment, trials, describe,
		{.repetitions = flags.reps, .quiet = flags.output.quiet, .resume = flags.resume}, files);
	if (!end.error.empty()) return complain(end.error);
	bool impossible = false;
	for (const bench::Json& row : end.table.rows) {
		if (row["validity"] != "invalid") continue;
		if (end.failed) return complain(fmt::format("{}: {}", experiment.title(row), bench::word_of(row, "reason")));
		impossible |= !expects || !expects(row);
	}
	return end.interrupted ? bench::interrupted : impossible ? impossible_data : good;
}

}  // namespace verbena::tools

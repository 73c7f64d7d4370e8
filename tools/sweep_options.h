// SPDX-License-Identifier: Apache-2.0
// The options that all benchmarks have (--reps, --resume, those of the output files), and the sweep
// that they run.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "bench/sweep/sweep.h"
#include "tools/output_options.h"

namespace verbena::tools {

struct SweepFlags {
	OutputOptions output;
	std::uint32_t reps = 5;
	std::string resume;
};
void add_sweep(CLI::App& app, SweepFlags& flags);

// For the end of --help.
inline constexpr const char* sweep_exit_codes =
	"Ctrl-C ends it after the current run and keeps the rows; --resume goes on. A second Ctrl-C ends it at once.\n"
	"Exit codes: 0 success, 1 something could not be measured, 2 wrong usage, 3 a row cannot be true,\n"
	"130 interrupted.";

// Opens the files before anything is measured. `as_markdown` as in bench::Outputs.
std::expected<bench::OutputFiles, std::string> open_outputs(
	const SweepFlags& flags, const bench::Experiment& experiment, bench::Render as_markdown = nullptr);

// Whether an invalid row is what the user asked for, so that it is no mistake.
using Expects = bool (*)(const bench::Json& row);

// Runs the sweep and returns the exit code, after a sentence about the first row that could not be
// measured.
int run_sweep(const bench::Experiment& experiment, std::span<const std::unique_ptr<bench::Trial>> trials,
	const bench::DescribeEnvironment& describe, const SweepFlags& flags, bench::OutputFiles& files,
	Expects expects = nullptr);

}  // namespace verbena::tools

// SPDX-License-Identifier: Apache-2.0
// The options --csv, --json, --md and --quiet of the benchmarks.
#pragma once

#include <CLI/CLI.hpp>

namespace verbena::tools {

struct OutputOptions {
	std::string csv, json, markdown;  // paths, or "-" for standard output; empty: not written
	bool quiet = false;

	// Call after parsing: chooses a Markdown table on standard output if no file was asked for.
	void settle() {
		if (csv.empty() && json.empty() && markdown.empty()) markdown = "-";
	}
};

inline void add_output(CLI::App& app, OutputOptions& options) {
	app.add_option("--csv", options.csv, "Write CSV (- is standard output)")->type_name("FILE");
	app.add_option("--json", options.json, "Write JSON, with each repetition (- is standard output)")
		->type_name("FILE");
	app.add_option("--md", options.markdown, "Write Markdown (- is standard output, and the default)")
		->type_name("FILE");
	app.add_flag("--quiet", options.quiet, "Print only results");
}

}  // namespace verbena::tools

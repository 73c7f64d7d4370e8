// SPDX-License-Identifier: Apache-2.0
// `verbena run --check`: what is to be done before and after a program that is checked.
//
// Threads: the main thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace verbena::tools {

struct CheckOptions {
	std::string level;  // error, portability or advice; empty: not checked
	std::vector<std::string> suppressions;  // files
	std::vector<std::string> reports;  // files: SARIF if the name ends in .sarif, otherwise JSON
};

// The exit code of a run with findings, as of a program that a sanitizer has ended.
inline constexpr int rules_broken = 86;

// A message if the options make no sense.
std::optional<std::string> fault_of(const CheckOptions&);

// Prints the findings of the program's processes when they come, and writes them to files.
class CheckedRun {
public:
	explicit CheckedRun(const CheckOptions&);
	~CheckedRun();

	// Sets the environment of the program. An exit code if that fails.
	std::optional<int> begin();
	// The program has ended. `rules_broken` if a finding was not suppressed, `failed` if a report
	// cannot be written; otherwise nothing.
	std::optional<int> finish();

private:
	struct Printer;
	const CheckOptions& options_;
	std::unique_ptr<Printer> printer_;  // null until begin()
};

}  // namespace verbena::tools

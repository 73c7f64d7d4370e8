// `verbena run --check`: runs the program as a child, prints the findings of its processes when
// they come, and writes them to files.
//
// Threads: the main thread.
#pragma once

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

// The exit code is `rules_broken` if a finding was not suppressed, otherwise the program's.
int run_checked(const std::vector<std::string>& command, const CheckOptions&);

}  // namespace verbena::tools

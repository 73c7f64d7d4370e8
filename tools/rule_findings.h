// SPDX-License-Identifier: Apache-2.0
// The findings of `verbena run --check`: the records of the processes (nic/rules/findings.h) with
// the functions and lines of the places, and the forms in which they are shown.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/symbols.h"

namespace verbena::tools {

struct Frame {
	std::string module;  // the path of the program or library
	std::uint64_t offset = 0;
	Place place;
};

struct RuleFinding {
	int pid = 0;
	std::string program, rule, severity, what, why;
	std::vector<Frame> stack;
	struct Note {
		std::string text;
		std::vector<Frame> stack;
	};
	std::vector<Note> notes;
	std::uint64_t count = 1;
	bool suppressed = false;
};

// The lines of files of suppressions, as in "send-buffer-modified:heartbeat_*": a rule or `*`, and
// a pattern (fnmatch(3)). The pattern is for the function, the source file, the program or the
// library of any frame of the stack.
class Suppressions {
public:
	// The error is a message with the file and the line.
	std::expected<void, std::string> read(const std::string& path);
	bool match(const RuleFinding&) const;

private:
	std::vector<std::pair<std::string, std::string>> patterns_;  // rule, pattern
};

class RuleFindings {
public:
	explicit RuleFindings(Suppressions suppressions) : suppressions_(std::move(suppressions)) {}

	// Takes a line of a process's file. Returns the text of a finding that is new and not
	// suppressed, otherwise an empty text.
	std::string take(std::string_view line);

	const std::vector<RuleFinding>& all() const { return all_; }
	// The findings that are not suppressed.
	std::size_t count() const;
	// One line: "3 findings: 2 of send-buffer-modified, 1 of ack-missing; 1 suppressed".
	std::string summary() const;
	std::string as_json() const;
	std::string as_sarif() const;

private:
	Suppressions suppressions_;
	Symbols symbols_;
	std::vector<RuleFinding> all_;
	// The index in all_ by the process and its number for the finding.
	std::map<std::pair<int, std::uint32_t>, std::size_t> numbers_;
};

std::string text_of(const RuleFinding&);

}  // namespace verbena::tools

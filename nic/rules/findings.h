// SPDX-License-Identifier: Apache-2.0
// The findings of the checker, and the way to their reader.
//
// A finding is written when it is found: as a line of JSON to the file that `verbena run` reads,
// or, without a file, as text to standard error. A rule that is broken at the same place again is
// counted, and the count is written at the end.
//
// Threads: any; a mutex inside.
// Errors: a file that cannot be written, or a lack of memory, loses findings but nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "nic/rules/call_site.h"
#include "nic/rules/rule.h"

namespace verbena::rules {

// A fact of the object's history: "the region 0x12 was registered here".
struct Note {
	std::string text;
	Site site = 0;
};

class Findings {
public:
	// Findings of this severity and of those above are reported. `path`: the file; empty: standard
	// error.
	Findings(Severity lowest, std::string path) : lowest_(lowest), path_(std::move(path)) {}

	// A rule was broken at a place. `what`: a sentence about the objects, without the full stop.
	void report(Rule, Site at, const std::string& what, const std::vector<Note>& notes = {});
	bool wants(Rule rule) const { return facts_of(rule).severity <= lowest_; }
	// Writes the counts. At the end of the process.
	void finish();

	Sites& sites() { return sites_; }

private:
	struct Known {
		std::uint32_t number;  // in the order of the process, from 1
		std::uint64_t count = 1;
	};
	void write_line(const std::string&);
	std::string line_of(std::uint32_t number, Rule, Site, const std::string& what, const std::vector<Note>&) const;
	std::string text_of(Rule, Site, const std::string& what, const std::vector<Note>&) const;

	Severity lowest_;
	std::string path_;
	Sites sites_;
	std::mutex mutex_;
	std::map<std::pair<Rule, Site>, Known> known_;
};

}  // namespace verbena::rules

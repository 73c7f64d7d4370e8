// SPDX-License-Identifier: Apache-2.0
// The result of one check of `verbena doctor` or `verbena self-test`, and its two forms in print.
//
// Threads: values and pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::tools {

// note: the NIC works without it, but slower or with less. problem: something does not work.
enum class Level { good, note, problem };

struct Finding {
	std::string subject;
	Level level = Level::good;
	std::string seen;
	std::string advice;  // the way out, or the cost; empty if the level is good
};

using Findings = std::vector<Finding>;

// The line for a terminal, and below it a second one with the advice, if there is any. `problem` is
// the first word of the line of a problem.
std::string text_of(const Finding& finding, std::string_view problem);

// {"subject", "level": "ok" | "note" | "problem", "seen", "advice"}, and back. finding_of() throws
// a Json::exception if a field is missing.
nlohmann::ordered_json json_of(const Finding& finding);
Finding finding_of(const nlohmann::ordered_json& json);

}  // namespace verbena::tools

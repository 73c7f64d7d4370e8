// SPDX-License-Identifier: Apache-2.0
#include "tools/finding.h"

#include <fmt/format.h>

namespace verbena::tools {
namespace {

std::string_view name_of(Level level) {
	return level == Level::good ? "ok" : level == Level::note ? "note" : "problem";
}

}  // namespace

std::string text_of(const Finding& finding, std::string_view problem) {
	const std::string_view word = finding.level == Level::problem ? problem : name_of(finding.level);
	std::string text = fmt::format("{:<8} {:<32} {}\n", word, finding.subject, finding.seen);
	if (!finding.advice.empty()) text += fmt::format("{:<8} {:<32} -> {}\n", "", "", finding.advice);
	return text;
}

nlohmann::ordered_json json_of(const Finding& finding) {
	return {{"subject", finding.subject}, {"level", name_of(finding.level)}, {"seen", finding.seen},
		{"advice", finding.advice}};
}

Finding finding_of(const nlohmann::ordered_json& json) {
	const auto level = json.at("level").get<std::string>();
	return {json.at("subject").get<std::string>(),
		level == "ok"         ? Level::good
			: level == "note" ? Level::note
							  : Level::problem,
		json.at("seen").get<std::string>(), json.at("advice").get<std::string>()};
}

}  // namespace verbena::tools

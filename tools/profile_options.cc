// SPDX-License-Identifier: Apache-2.0
#include "tools/profile_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "nic/profile/cells.h"
#include "tools/suggestion.h"

namespace verbena::tools {

std::optional<std::string> fault_of_profile(std::string_view name) {
	if (profile::find(name)) return std::nullopt;
	std::vector<std::string> known;
	for (const profile::Profile& each : profile::all()) known.emplace_back(each.name);
	std::string message = fmt::format("--profile: there is no profile '{}'", name);
	if (const std::string meant = suggestion(name, known); !meant.empty())
		message += fmt::format(" (did you mean '{}'?)", meant);
	return message + fmt::format("; the profiles are {}, and --profile=list prints them", names_of_profiles(", "));
}

std::string names_of_profiles(std::string_view separator) {
	std::string names;
	for (const profile::Profile& each : profile::all()) {
		if (!names.empty()) names += separator;
		names += each.name;
	}
	return names;
}

std::string list_of_profiles() {
	std::size_t name_width = 0;
	for (const profile::Row& row : profile::rows()) name_width = std::max(name_width, row.name.size());
	std::vector<std::string> lines(profile::rows().size() + 1);
	lines[0] = fmt::format("{:<{}}", "", name_width);
	for (std::size_t i = 1; i < lines.size(); ++i)
		lines[i] = fmt::format("{:<{}}", profile::rows()[i - 1].name, name_width);
	for (const profile::Profile& each : profile::all()) {
		std::vector<std::string> cells{std::string(each.name)};
		for (const profile::Row& row : profile::rows()) cells.push_back(row.cell(each));
		const std::size_t width = std::ranges::max(cells, {}, &std::string::size).size();
		for (std::size_t i = 0; i < lines.size(); ++i) lines[i] += fmt::format("  {:>{}}", cells[i], width);
	}
	std::string text =
		fmt::format("{}\n\n?: no source was found, so the figure is that of verbena.\n\n", fmt::join(lines, "\n"));
	for (const profile::Profile& each : profile::all())
		text += fmt::format("{:<8}{}: {}\n", each.name, each.device, each.sources);
	return text;
}

}  // namespace verbena::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/sizes.h"
#include "bench/environment.h"
#include "tools/suggestion.h"

namespace verbena::tools {
namespace {

// The subcommand that the user chose; of nested ones the innermost.
const CLI::App& chosen(const CLI::App& app) {
	const auto below = app.get_subcommands();
	return below.empty() ? app : chosen(*below.front());
}

// The words that a user types for this (sub)command: "verbena bench".
std::string words_of(const CLI::App& app) {
	return app.get_parent() == nullptr ? app.get_name() : words_of(*app.get_parent()) + " " + app.get_name();
}

std::string meant(const std::string& word, const std::vector<std::string>& known) {
	const std::string nearest = suggestion(word, known);
	return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

// The subcommands below `app` that have this option, as "'verbena run' and 'verbena explore'".
std::string owners_of(const CLI::App& app, const std::string& option) {
	std::string owners;
	for (const CLI::App* const each : app.get_subcommands({})) {
		const std::string own =
			each->get_option_no_throw(option) != nullptr ? "'" + words_of(*each) + "'" : owners_of(*each, option);
		if (!own.empty()) owners += (owners.empty() ? "" : " and ") + own;
	}
	return owners;
}

// `app` is the innermost subcommand that was chosen.
std::string unknown_option(const CLI::App& app, const std::string& word) {
	const std::string name = word.substr(0, word.find('='));
	if (app.get_option_no_throw(name) != nullptr)
		return fmt::format("{} is an option of '{}': write it after '{}'", name, words_of(app), app.get_name());
	if (const std::string owners = owners_of(app, name); !owners.empty())
		return fmt::format("{} is an option of {}: write it after the name of the subcommand", name, owners);
	std::vector<std::string> known;
	for (const CLI::Option* const option : app.get_options({}))
		for (const std::string& each : option->get_lnames()) known.push_back("--" + each);
	return fmt::format("there is no option '{}'{}", name, meant(name, known));
}

std::string unknown_subcommand(const CLI::App& app, const std::string& word) {
	std::vector<std::string> known;
	for (const CLI::App* const each : app.get_subcommands({})) known.push_back(each->get_name());
	if (const std::string advice = meant(word, known); !advice.empty())
		return fmt::format("there is no subcommand '{}'{}", word, advice);
	return fmt::format("there is no subcommand '{}'; there are {}", word, fmt::join(known, ", "));
}

// CLI::Range says "Value 1K not in range 1 to 9000" of a text that is no number, too.
std::string without_false_range(const std::string& text) {
	constexpr std::string_view before = "Value ", after = " not in range ", between = " to ";
	const auto begin = text.find(before), end = text.find(after);
	if (begin == text.npos || end == text.npos || end < begin + before.size()) return text;
	const std::string value = text.substr(begin + before.size(), end - begin - before.size());
	const std::string option = text.substr(0, begin), range = text.substr(end + after.size());
	char* rest = nullptr;
	std::strtod(value.c_str(), &rest);
	if (!value.empty() && *rest == '\0') return text;
	const auto size = parse_size(value);
	if (!size) return fmt::format("{}'{}' is not a number", option, value);
	// An option that takes sizes has refused this one for its range.
	const auto least = parse_size(range.substr(0, range.find(between)));
	const auto most = parse_size(range.substr(std::min(range.size(), range.find(between) + between.size())));
	if (least && most && (*size < *least || *size > *most)) return text;
	return fmt::format("{}'{}' is not a plain number: write {}", option, value, *size);
}

// The parser says "Could not convert: --port = abc" of a number that an option without a range
// cannot take.
std::string without_conversion(const std::string& text) {
	constexpr std::string_view before = "Could not convert: ", between = " = ";
	const auto middle = text.find(between);
	if (!text.starts_with(before) || middle == text.npos) return text;
	const std::string option = text.substr(before.size(), middle - before.size());
	const std::string value = text.substr(middle + between.size());
	const bool is_integer = value.find_first_not_of("0123456789", value.starts_with('-') ? 1 : 0) == value.npos;
	if (is_integer && value.size() > value.starts_with('-'))
		return fmt::format("{}: {} is out of range", option, value);
	char* rest = nullptr;
	std::strtod(value.c_str(), &rest);
	const bool is_number = !value.empty() && *rest == '\0';
	return fmt::format("{}: '{}' is not a {}number", option, value, is_number ? "whole " : "");
}

std::string mistake(const CLI::App* top, const CLI::Error& error) {
	const CLI::App& app = chosen(*top);
	std::vector<std::string> extra = top->remaining(true);
	std::erase(extra, "--");
	const auto option = std::ranges::find_if(extra, [](const std::string& word) { return word.starts_with('-'); });
	const bool wants_subcommand = app.get_require_subcommand_min() > 0 && app.get_subcommands().empty();
	std::string text = without_conversion(without_false_range(error.what()));
	if (option != extra.end()) text = unknown_option(app, *option);
	else if (!extra.empty() && wants_subcommand) text = unknown_subcommand(app, extra.front());
	else if (!extra.empty()) text = fmt::format("the argument '{}' was not expected", extra.front());
	return fmt::format("{}: {}\nRun '{} --help' for more information.\n", top->get_name(), text, words_of(app));
}

}  // namespace

std::string version_of(const std::string& program) {
	return fmt::format("{} {} ({})", program, VERBENA_VERSION, bench::commit());
}

CommandLine::CommandLine(const std::string& name, const std::string& description) : App(description, name) {}

CommandLine::~CommandLine() = default;

std::optional<int> CommandLine::read(int argc, char** argv) { return read({argv + 1, argv + argc}); }

std::optional<int> CommandLine::read(std::vector<std::string> words) {
	set_version_flag("--version", [name = get_name()] {
		return version_of(name);
	})->description("Print the version and the commit");
	failure_message(mistake);
	std::ranges::reverse(words);  // the order that the parser wants
	try {
		parse(std::move(words));
	} catch (const CLI::ParseError& error) {
		return exit(error) == 0 ? 0 : 2;
	}
	return std::nullopt;
}

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description) {
	CLI::App* const command = app.add_subcommand(name, description);
	command->footer("");  // otherwise it has the footer of the whole program
	return command;
}

}  // namespace verbena::tools

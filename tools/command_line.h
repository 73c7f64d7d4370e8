// SPDX-License-Identifier: Apache-2.0
// The common part of all command lines: --version, and messages that name what a wrong word may
// have meant.
//
//     if (const auto code = parse(app, argc, argv)) return *code;
//
// Threads: the main thread only.
// Errors: the message goes to standard error, and the exit code is 2.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "bench/environment.h"
#include "tools/suggestion.h"

namespace verbena::tools {

inline std::string version_of(const std::string& program) {
	return fmt::format("{} {} ({})", program, VERBENA_VERSION, bench::commit());
}

namespace command_line {

// The subcommand that the user chose; of nested ones the innermost.
inline const CLI::App& chosen(const CLI::App& app) {
	const auto below = app.get_subcommands();
	return below.empty() ? app : chosen(*below.front());
}

// The words that a user types for this (sub)command: "verbena bench".
inline std::string words_of(const CLI::App& app) {
	return app.get_parent() == nullptr ? app.get_name() : words_of(*app.get_parent()) + " " + app.get_name();
}

inline std::string meant(const std::string& word, const std::vector<std::string>& known) {
	const std::string nearest = suggestion(word, known);
	return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

inline std::string unknown_option(const CLI::App& app, const std::string& word) {
	const std::string name = word.substr(0, word.find('='));
	std::vector<std::string> known;
	for (const CLI::Option* const option : app.get_options({}))
		for (const std::string& each : option->get_lnames()) known.push_back("--" + each);
	return fmt::format("there is no option '{}'{}", name, meant(name, known));
}

inline std::string unknown_subcommand(const CLI::App& app, const std::string& word) {
	std::vector<std::string> known;
	for (const CLI::App* const each : app.get_subcommands({})) known.push_back(each->get_name());
	if (const std::string advice = meant(word, known); !advice.empty())
		return fmt::format("there is no subcommand '{}'{}", word, advice);
	return fmt::format("there is no subcommand '{}'; there are {}", word, fmt::join(known, ", "));
}

inline std::string mistake(const CLI::App* top, const CLI::Error& error) {
	const CLI::App& app = chosen(*top);
	std::vector<std::string> extra = top->remaining(true);
	std::erase(extra, "--");
	const auto option = std::ranges::find_if(extra, [](const std::string& word) { return word.starts_with('-'); });
	const bool wants_subcommand = app.get_require_subcommand_min() > 0 && app.get_subcommands().empty();
	std::string text = error.what();
	if (option != extra.end()) text = unknown_option(app, *option);
	else if (!extra.empty() && wants_subcommand) text = unknown_subcommand(app, extra.front());
	else if (!extra.empty()) text = fmt::format("the argument '{}' was not expected", extra.front());
	return fmt::format("{}: {}\nRun '{} --help' for more information.\n", top->get_name(), text, words_of(app));
}

}  // namespace command_line

// Call after the program's own options were added.
inline void add_version_and_advice(CLI::App& app) {
	app.set_version_flag("--version", [name = app.get_name()] { return version_of(name); })
		->description("Print the version and the commit");
	app.failure_message(command_line::mistake);
}

// Returns the exit code if the program ends now: 0 after --help and --version, 2 after a mistake.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
	add_version_and_advice(app);
	try {
		app.parse(argc, argv);
	} catch (const CLI::ParseError& error) {
		return app.exit(error) == 0 ? 0 : 2;
	}
	return std::nullopt;
}

}  // namespace verbena::tools

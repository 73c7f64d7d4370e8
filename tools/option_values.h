// SPDX-License-Identifier: Apache-2.0
// Checks of option values that CLI11 has no validator for: sizes (64K), lists of sizes, and lists
// of words. The errors have the words of CLI::Range and CLI::IsMember, so that one mistake has one
// message in all programs.
//
// Threads: functions without state.
// Errors: a validator returns the message; the other functions throw CLI::ValidationError.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sizes.h"

namespace verbena::tools {

// A text that parse_size() reads as this number, with a unit from 1M on: 4096 -> "4096", 2^26 ->
// "64M".
std::string text_of_size(std::uint64_t bytes);

// The message for a size outside of [least, most]; empty if it is inside.
std::string range_error(std::string_view text, std::uint64_t size, std::uint64_t least, std::uint64_t most);

// For a program with an option --port: the message for "HOST:PORT"; empty for other texts, such as
// an IPv6 address.
std::string advice_on_port(const std::string& server);

// Refuses an empty text, for example from a shell variable that is not set. It does not mean that
// the option is not given.
CLI::Validator not_empty();

// The validator of an option whose text is a size from `least` to `most`.
CLI::Validator size_between(std::uint64_t least, std::uint64_t most);

// The same for an option that is a number: ->transform() of it turns 4K into 4096.
CLI::Validator as_size(std::uint64_t least, std::uint64_t most);

// A list of sizes and ranges as in parse_sizes(), each from 1 to `most`.
std::vector<std::uint64_t> sizes_of(const char* option, const std::string& text, std::uint64_t most);

// A list of numbers, each from 0 to `most`.
std::vector<std::uint64_t> counts_of(const char* option, const std::string& text, std::uint64_t most);

// The values of a list of words, each of which must be in `known`.
template <class Value>
std::vector<Value> words_of(
	const char* option, const std::string& text, const std::vector<std::pair<std::string, Value>>& known) {
	std::vector<Value> values;
	for (const std::string_view word : split(text)) {
		const auto found = std::ranges::find(known, word, &std::pair<std::string, Value>::first);
		if (found == known.end()) {
			std::string all;
			for (const auto& each : known) all += (all.empty() ? "" : ",") + each.first;
			throw CLI::ValidationError(option, fmt::format("{} not in {{{}}}", word, all));
		}
		values.push_back(found->second);
	}
	return values;
}

}  // namespace verbena::tools

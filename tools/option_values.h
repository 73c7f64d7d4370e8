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
inline std::string text_of_size(std::uint64_t bytes) {
	for (const auto& [shift, unit] : {std::pair(40, 'T'), std::pair(30, 'G'), std::pair(20, 'M')})
		if (bytes != 0 && bytes % (std::uint64_t{1} << shift) == 0) return fmt::format("{}{}", bytes >> shift, unit);
	return std::to_string(bytes);
}

// The message for a size outside of [least, most]; empty if it is inside.
inline std::string range_error(std::string_view text, std::uint64_t size, std::uint64_t least, std::uint64_t most) {
	if (size >= least && size <= most) return "";
	return fmt::format("Value {} not in range {} to {}", text, text_of_size(least), text_of_size(most));
}

// For a program with an option --port: the message for "HOST:PORT"; empty for other texts, such as
// an IPv6 address.
inline std::string advice_on_port(const std::string& server) {
	const auto colon = server.find(':');
	if (colon == server.npos || colon + 1 == server.size() || server.find(':', colon + 1) != server.npos) return "";
	const std::string port = server.substr(colon + 1);
	if (port.find_first_not_of("0123456789") != port.npos) return "";
	return fmt::format("{}: write the port as an option, {} --port {}", server, server.substr(0, colon), port);
}

// Refuses an empty text, for example from a shell variable that is not set. It does not mean that
// the option is not given.
inline CLI::Validator not_empty() {
	return CLI::Validator([](const std::string& text) { return text.empty() ? "must not be empty" : ""; }, "");
}

// The validator of an option whose text is a size from `least` to `most`.
inline CLI::Validator size_between(std::uint64_t least, std::uint64_t most) {
	return CLI::Validator(
		[least, most](std::string& text) {
			const auto size = parse_size(text);
			return size ? range_error(text, *size, least, most) : size.error();
		},
		"SIZE");
}

// The same for an option that is a number: ->transform() of it turns 4K into 4096.
inline CLI::Validator as_size(std::uint64_t least, std::uint64_t most) {
	return CLI::Validator(
		[least, most](std::string& text) {
			const auto size = parse_size(text);
			if (!size) return size.error();
			std::string error = range_error(text, *size, least, most);
			if (error.empty()) text = std::to_string(*size);
			return error;
		},
		"SIZE");
}

// A list of sizes and ranges as in parse_sizes(), each from 1 to `most`.
inline std::vector<std::uint64_t> sizes_of(const char* option, const std::string& text, std::uint64_t most) {
	const auto sizes = parse_sizes(text);
	if (!sizes) throw CLI::ValidationError(option, sizes.error());
	std::vector<std::uint64_t> once;
	for (const std::uint64_t size : *sizes) {
		if (const std::string error = range_error(text_of_size(size), size, 1, most); !error.empty())
			throw CLI::ValidationError(option, error);
		if (std::ranges::find(once, size) == once.end()) once.push_back(size);
	}
	return once;
}

// A list of numbers, each from 0 to `most`.
inline std::vector<std::uint64_t> counts_of(const char* option, const std::string& text, std::uint64_t most) {
	std::vector<std::uint64_t> counts;
	for (const std::string_view word : split(text)) {
		const auto count = parse_size(word);
		const std::string error = count ? range_error(word, *count, 0, most) : count.error();
		if (!error.empty()) throw CLI::ValidationError(option, error);
		counts.push_back(*count);
	}
	return counts;
}

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

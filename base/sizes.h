// SPDX-License-Identifier: Apache-2.0
// Sizes and counts as users write them: 32, 4K, 1M, lists of them, and ranges by doubling.
//
//     size   = digits [K|M|G|T]     K = 2^10, M = 2^20, G = 2^30, T = 2^40, either case
//     sizes  = item {"," item}
//     item   = size | size ":" size (from the first to the second, doubling)
//
// Threads: pure functions.
// Errors: a message for the user that quotes the text at fault.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace verbena {

// One size, which may be 0.
inline std::expected<std::uint64_t, std::string> parse_size(std::string_view text) {
	const auto fault = [&](const char* why) { return std::unexpected("'" + std::string(text) + "' " + why); };
	std::uint64_t number = 0;
	const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
	if (error == std::errc::result_out_of_range) return fault("is too large");
	if (error != std::errc()) return fault("is not a size (examples: 32, 4K, 1M)");

	unsigned shift = 0;
	const std::string_view unit(rest, text.data() + text.size() - rest);
	if (unit == "K" || unit == "k") shift = 10;
	else if (unit == "M" || unit == "m") shift = 20;
	else if (unit == "G" || unit == "g") shift = 30;
	else if (unit == "T" || unit == "t") shift = 40;
	else if (!unit.empty()) return fault("is not a size (examples: 32, 4K, 1M)");
	if (number > UINT64_MAX >> shift) return fault("is too large");
	return number << shift;
}

// The parts between separators. An empty part is kept, so that the caller can report "1,,2" as a
// mistake.
inline std::vector<std::string_view> split(std::string_view text, char separator = ',') {
	std::vector<std::string_view> parts;
	while (true) {
		const auto end = text.find(separator);
		parts.push_back(text.substr(0, end));
		if (end == text.npos) return parts;
		text.remove_prefix(end + 1);
	}
}

// A list of sizes (`sizes` above), each at least 1. A range includes its upper end only if doubling
// reaches that end: 32:100 is 32, 64.
inline std::expected<std::vector<std::uint64_t>, std::string> parse_sizes(std::string_view text) {
	std::vector<std::uint64_t> sizes;
	for (const std::string_view item : split(text)) {
		const auto colon = item.find(':');
		const auto from = parse_size(item.substr(0, colon));
		const auto to = colon == item.npos ? from : parse_size(item.substr(colon + 1));
		for (const auto* end : {&from, &to})
			if (!*end) return std::unexpected(end->error());
		if (*from == 0) return std::unexpected("'" + std::string(item) + "': sizes begin at 1");
		if (*to < *from) return std::unexpected("'" + std::string(item) + "' runs backwards");
		for (std::uint64_t size = *from; size <= *to; size *= 2) {
			sizes.push_back(size);
			if (size > UINT64_MAX / 2) break;
		}
	}
	return sizes;
}

}  // namespace verbena

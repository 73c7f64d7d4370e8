// SPDX-License-Identifier: Apache-2.0
#include "tools/option_values.h"

namespace verbena::tools {

std::string text_of_size(std::uint64_t bytes) {
	for (const auto& [shift, unit] : {std::pair(40, 'T'), std::pair(30, 'G'), std::pair(20, 'M')})
		if (bytes != 0 && bytes % (std::uint64_t{1} << shift) == 0) return fmt::format("{}{}", bytes >> shift, unit);
	return std::to_string(bytes);
}

std::string range_error(std::string_view text, std::uint64_t size, std::uint64_t least, std::uint64_t most) {
	if (size >= least && size <= most) return "";
	return fmt::format("Value {} not in range {} to {}", text, text_of_size(least), text_of_size(most));
}

std::string advice_on_port(const std::string& server) {
	const auto colon = server.find(':');
	if (colon == server.npos || colon + 1 == server.size() || server.find(':', colon + 1) != server.npos) return "";
	const std::string port = server.substr(colon + 1);
	if (port.find_first_not_of("0123456789") != port.npos) return "";
	return fmt::format("{}: write the port as an option, {} --port {}", server, server.substr(0, colon), port);
}

CLI::Validator not_empty() {
	return CLI::Validator([](const std::string& text) { return text.empty() ? "must not be empty" : ""; }, "");
}

CLI::Validator size_between(std::uint64_t least, std::uint64_t most) {
	return CLI::Validator(
		[least, most](std::string& text) {
			const auto size = parse_size(text);
			return size ? range_error(text, *size, least, most) : size.error();
		},
		"SIZE");
}

CLI::Validator as_size(std::uint64_t least, std::uint64_t most) {
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

std::vector<std::uint64_t> sizes_of(const char* option, const std::string& text, std::uint64_t most) {
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

std::vector<std::uint64_t> counts_of(const char* option, const std::string& text, std::uint64_t most) {
	std::vector<std::uint64_t> counts;
	for (const std::string_view word : split(text)) {
		const auto count = parse_size(word);
		const std::string error = count ? range_error(word, *count, 0, most) : count.error();
		if (!error.empty()) throw CLI::ValidationError(option, error);
		counts.push_back(*count);
	}
	return counts;
}

}  // namespace verbena::tools

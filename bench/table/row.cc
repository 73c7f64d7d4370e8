// SPDX-License-Identifier: Apache-2.0
#include "bench/table/row.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace verbena::bench {
namespace {

double rounding_of(std::string_view text) {
	const auto exponent_at = text.find_first_of("eE");
	const std::string_view mantissa = text.substr(0, exponent_at);
	const auto point = mantissa.find('.');
	const int decimals = point == mantissa.npos ? 0 : static_cast<int>(mantissa.size() - point - 1);
	int exponent = 0;
	if (exponent_at != text.npos) std::from_chars(text.data() + exponent_at + 1, text.data() + text.size(), exponent);
	return 0.5 * std::pow(10.0, exponent - decimals);
}

std::optional<Number> number_in(std::string_view text) {
	Number number;
	const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number.value);
	if (error != std::errc() || rest != text.data() + text.size()) return {};
	if (!std::isfinite(number.value) || number.value < 0) return {};
	number.rounding = rounding_of(text);
	return number;
}

}  // namespace

std::string lowered(std::string_view text) {
	std::string small(text);
	for (char& c : small)
		if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
	return small;
}

std::string_view value_of(const Environment& environment, std::string_view name) {
	const auto found = std::ranges::find(environment, name, &Environment::value_type::first);
	return found == environment.end() ? std::string_view() : std::string_view(found->second);
}

std::string text_of(const Json& value) {
	if (value.is_null()) return "";
	return value.is_string() ? value.get<std::string>() : value.dump();
}

std::optional<Number> number_of(const Json& row, std::string_view column) {
	const auto found = row.find(column);
	if (found == row.end() || found->is_null() || found->is_structured()) return {};
	return number_in(text_of(*found));
}

std::optional<Number> stated_number(const Environment& environment, std::string_view name) {
	return number_in(value_of(environment, name));
}

double value_in(const Json& row, std::string_view column) { return number_of(row, column).value_or(Number{}).value; }

std::string word_of(const Json& row, std::string_view column) {
	const auto found = row.find(column);
	return found == row.end() ? std::string() : text_of(*found);
}

bool has_value(const Json& row, std::string_view column) {
	const auto found = row.find(column);
	return found != row.end() && !found->is_null() &&
		!(found->is_string() && found->get_ref<const std::string&>().empty());
}

std::string shortened(std::string_view text, std::size_t bytes_most) {
	if (text.size() <= bytes_most) return std::string(text);
	std::size_t end = bytes_most;
	// In UTF-8 the bytes after the first one of a character begin with the bits 10.
	while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
	return std::string(text.substr(0, end)) + "...";
}

std::string three_digits(double number) {
	if (number == 0) return "0";
	const int before_point = static_cast<int>(std::floor(std::log10(std::abs(number)))) + 1;
	return fmt::format("{:.{}f}", number, std::clamp(3 - before_point, 0, 12));
}

}  // namespace verbena::bench

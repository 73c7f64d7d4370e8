#include "bench/columns.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <type_traits>

namespace verbena::bench {
namespace {

template <class Number> std::expected<Number, std::string> read_number(std::string_view text) {
	Number number{};
	const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
	if (error != std::errc() || rest != text.data() + text.size())
		return std::unexpected(fmt::format("'{}' is not a number", text));
	if constexpr (std::is_floating_point_v<Number>)
		if (!std::isfinite(number) || number < 0)
			return std::unexpected(fmt::format("'{}' is not a finite number >= 0", text));
	return number;
}

// Half a unit of the last printed digit: 0.005 for "0.44".
double rounding_of(std::string_view text) {
	const auto exponent_at = text.find_first_of("eE");
	const std::string_view mantissa = text.substr(0, exponent_at);
	const auto point = mantissa.find('.');
	const int decimals = point == mantissa.npos ? 0 : static_cast<int>(mantissa.size() - point - 1);
	int exponent = 0;
	if (exponent_at != text.npos) std::from_chars(text.data() + exponent_at + 1, text.data() + text.size(), exponent);
	return 0.5 * std::pow(10.0, exponent - decimals);
}

// The type that a column's text stands for: T of a T, and of an optional<T>.
template <class T> struct Value {
	using type = T;
};
template <class T> struct Value<std::optional<T>> {
	using type = T;
};

template <auto field> constexpr Column column(std::string_view name) {
	using Field = std::remove_cvref_t<decltype(Row{}.*field)>;
	using T = typename Value<Field>::type;
	constexpr bool is_optional = !std::is_same_v<Field, T>;
	return {
		.name = name,
		.is_number = !std::is_same_v<T, std::string>,
		.text = [](const Row& row) -> std::string {
			if constexpr (is_optional) return row.*field ? fmt::format("{}", *(row.*field)) : "";
			else return fmt::format("{}", row.*field);
		},
		.set = [](Row& row, std::string_view text) -> std::expected<void, std::string> {
			if constexpr (std::is_same_v<T, std::string>) {
				row.*field = std::string(text);
			} else {
				if (is_optional && text.empty()) return {};
				const auto number = read_number<T>(text);
				if (!number) return std::unexpected(number.error());
				row.*field = *number;
			}
			return {};
		},
	};
}

// A column whose number may be rounded where it was printed; `rounding` keeps by how much.
template <auto field, auto rounding> constexpr Column printed_column(std::string_view name) {
	Column made = column<field>(name);
	made.set = [](Row& row, std::string_view text) -> std::expected<void, std::string> {
		if (text.empty() || text == "n/a") return {};
		row.*rounding = rounding_of(text);
		return column<field>("").set(row, text);
	};
	return made;
}

constexpr Column all[] = {
	column<&Row::experiment>("experiment"),
	column<&Row::mode>("mode"),
	column<&Row::msg>("msg"),
	column<&Row::window>("window"),
	column<&Row::iters>("iters"),
	printed_column<&Row::mops, &Row::mops_rounding>("mops"),
	printed_column<&Row::gib, &Row::gib_rounding>("gib"),
	column<&Row::op>("op"),
	column<&Row::window_mode>("window_mode"),
	column<&Row::device>("device"),
	column<&Row::mtu>("mtu"),
	column<&Row::posted>("posted"),
	column<&Row::completed>("completed"),
	column<&Row::delivered>("delivered"),
	column<&Row::lost>("lost"),
	column<&Row::duplicated>("duplicated"),
	column<&Row::reordered>("reordered"),
	column<&Row::spread>("spread"),
	column<&Row::mops_low>("mops_low"),
	column<&Row::mops_high>("mops_high"),
	column<&Row::p50_us>("p50_us"),
	column<&Row::p99_us>("p99_us"),
	column<&Row::rtt_before_ns>("rtt_before_ns"),
	column<&Row::rtt_after_ns>("rtt_after_ns"),
	column<&Row::rtt_class>("rtt_class"),
	column<&Row::validity>("validity"),
	column<&Row::reason>("reason"),
	column<&Row::repetitions>("repetitions"),
};

}  // namespace

std::span<const Column> columns() { return all; }

}  // namespace verbena::bench

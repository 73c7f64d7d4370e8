// SPDX-License-Identifier: Apache-2.0
// A result table as all benchmarks write and read it: its environment, and rows of named values.
//
// A row is an ordered JSON object. In a table that was read from CSV the values are the texts of
// the fields; number_of() and word_of() hide the difference. The column `repetitions` holds what
// each repetition of the row's cell measured, as a list of objects; every other figure of a row
// follows from it.
//
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbena::bench {

using Json = nlohmann::ordered_json;

// The environment of the measurement: names and values, in the order in which they are printed.
using Environment = std::vector<std::pair<std::string, std::string>>;

struct Table {
	Environment environment;
	std::vector<Json> rows;
	// False if it was read from CSV, in which repetitions have no histograms.
	bool has_histograms = true;
};

// The text with small letters for A to Z. The keys of an environment are compared in this form.
std::string lowered(std::string_view text);

// The value of a name in the environment; empty if there is none.
std::string_view value_of(const Environment& environment, std::string_view name);

enum class Kind : std::uint8_t { word, count, number, list };

// The meaning of a column for its row.
enum class Role : std::uint8_t {
	cell,      // it is one of those that name the cell: no two rows agree in all of them
	setting,   // an option of the measurement
	result,    // follows from the repetitions
	verdict,   // validity and reason: written by the judge, and never believed
	evidence,  // the repetitions themselves
};

struct Column {
	std::string_view name;
	Kind kind;
	Role role;
	// Every table of the experiment has the column, a published one too.
	bool is_published = false;
	// Left out of Markdown, which would become too wide.
	bool is_detail = false;
};

struct Number {
	double value = 0;
	double rounding = 0;  // half a unit of the last printed digit: 0.005 for "0.44"
};

// The number in this column. Empty if the row has none, or if it is no finite number of 0 or more.
std::optional<Number> number_of(const Json& row, std::string_view column);
// The same number, or 0.
double value_in(const Json& row, std::string_view column);
// The number that the environment has under this name, by the same rules.
std::optional<Number> stated_number(const Environment& environment, std::string_view name);
// The text in this column; empty if the row has none.
std::string word_of(const Json& row, std::string_view column);
// Whether the row has a value in this column.
bool has_value(const Json& row, std::string_view column);

// A value as a field of CSV: empty for null, a number with the fewest digits that read back as the
// same value.
std::string text_of(const Json& value);

// A text of a file as a message quotes it: at most `bytes_most` of it, in whole characters, and
// "..." if there is more.
std::string shortened(std::string_view text, std::size_t bytes_most = 80);

// Three significant digits: 0.0123456 -> "0.0123", 12.345 -> "12.3", 1234.5 -> "1234".
std::string three_digits(double number);

}  // namespace verbena::bench

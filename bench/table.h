// Result tables as text: CSV (and JSON) in and out, Markdown out.
//
// CSV: the header line, the rows, then the environment as trailer lines "# key: value". Fields with a comma, quote or
// line break are quoted as RFC 4180 has it. Numbers have full precision in CSV and JSON, three significant digits in
// Markdown.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "bench/row.h"

namespace verbena::bench {

std::string to_csv(const Table& table);
std::string to_markdown(const Table& table);

// {"environment":{...},"rows":[...]}: the columns' names as keys; absent values are null.
std::string to_json(const Table& table);

// Any table that has the first seven columns, in any order; unknown columns are ignored. JSON if it begins with '{'.
// The error is one sentence with the line and column at fault.
std::expected<Table, std::string> read_table(std::string_view text);

// 0.0123456 -> "0.0123", 12.345 -> "12.3", 1234.5 -> "1234".
std::string three_digits(double number);

}  // namespace verbena::bench

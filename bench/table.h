// Result tables of `verbena bench rcud` as text: reads and writes CSV and JSON, writes Markdown.
//
// CSV has a header line, the rows, and then the environment in lines "# key: value". A field with a
// comma, a quote or a line break is quoted (RFC 4180). Numbers have full precision in CSV and JSON,
// and three significant digits in Markdown.
//
// Threads: pure functions.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "bench/row.h"

namespace verbena::bench {

std::string to_csv(const Table& table);
std::string to_markdown(const Table& table);

// {"environment":{...},"rows":[...]}. A row's keys are the names of the columns; an absent value is
// null.
std::string to_json(const Table& table);

// Reads a table that has at least the first seven columns, in any order, and ignores unknown
// columns. It is JSON if it begins with '{', else CSV. The error is one sentence that names line
// and column.
std::expected<Table, std::string> read_table(std::string_view text);

// Three significant digits: 0.0123456 -> "0.0123", 12.345 -> "12.3", 1234.5 -> "1234".
std::string three_digits(double number);

}  // namespace verbena::bench

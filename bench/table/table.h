// SPDX-License-Identifier: Apache-2.0
// Reads result tables (CSV or JSON) and writes them (CSV, JSON, Markdown).
//
// CSV has a header line, the rows, and then the environment in lines "# key: value". A field with a
// comma, a quote or a line break is quoted (RFC 4180). A list is a field of JSON; in it the
// histograms of the repetitions are left out, so only a JSON table has them.
//
// JSON is {"environment":{...},"rows":[...]}. An absent value is null.
//
// Numbers have full precision in CSV and JSON, and three significant digits in Markdown.
//
// Threads: pure functions.
// Errors: one sentence that says what is wrong and where.
#pragma once

#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/table/row.h"

namespace verbena::bench {

// Writes a column in each row even if the row has no value for it, and no other columns.
std::string to_csv(const Table& table, std::span<const Column> columns);
std::string to_json(const Table& table, std::span<const Column> columns);
// Leaves out lists, details, and columns without any value unless they are published ones.
std::string to_markdown(const Table& table, std::span<const Column> columns);

// Reads JSON if the first character that is no white space is '{', else CSV. The table has at least
// one row, all rows of CSV have the same columns, and no column and no key of the environment
// appears twice. Blanks beside the name of a column in CSV do not count. The text is UTF-8 without
// bytes 0, and the limits of limits.h hold. Values are not checked; the judge does that
// (bench/judge).
//
// It is the only reader of tables: `verbena report` gets its rows from `verbena check --json
// --table`, so that the rows that are shown are those that were judged.
std::expected<Table, std::string> read_table(std::string_view text);

// Removes one CSV record from the front of `text` and returns its fields. A quoted field may hold
// commas, doubled quotes and line breaks (RFC 4180). The error says that a quoted field has no end,
// or that there are more than names_max fields.
std::expected<std::vector<std::string>, std::string> take_record(std::string_view& text);

}  // namespace verbena::bench

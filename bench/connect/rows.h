// Makes a table of repetitions, with a judged row for each number of clients, and writes it as CSV,
// JSON or Markdown. Other benchmarks write their tables by it too.
//
// Threads: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/connect/run.h"

namespace verbena::connect {

using Json = nlohmann::ordered_json;

struct Table {
	std::vector<std::pair<std::string, std::string>> environment;
	std::vector<Json> rows;  // objects with the same keys, in the order of the columns
};

// The row of the repetitions with one number of clients: medians of the times, sums of the counts.
// `validity` is valid, or invalid with a reason: a connection failed, the server's counts differ,
// or more connects would have been under way than there were clients (Little's law). `parts` names
// the parts of a connect.
Json row_of(
	std::string_view connect, std::span<const std::string_view> parts, const std::vector<Repetition>& repetitions);

// `table` must have at least one row. Lists inside of a row are left out.
std::string to_csv(const Table& table);
std::string to_json(const Table& table);
// The most important columns; CSV and JSON have all. `table` must have at least one row.
std::string to_markdown(const Table& table);

}  // namespace verbena::connect

// From repetitions to a table: one row for each number of clients, judged, in the forms that people and programs read.
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

// The row of the repetitions with one number of clients: medians over them, counts as sums. `validity` is valid, or
// invalid with the reason: something failed, the other end counted otherwise, or more would have been under way than
// there were clients (Little's law).
Json row_of(
	std::string_view connect, std::span<const std::string_view> parts, const std::vector<Repetition>& repetitions);

std::string to_csv(const Table& table);
std::string to_json(const Table& table);
// The columns that a reader compares; the others are in CSV and JSON.
std::string to_markdown(const Table& table);

}  // namespace verbena::connect

// Judges a whole table of this experiment, ours or published: whether its rows can be true, and whether they can be
// compared with each other.
//
// A row is "not comparable" if its clients did other work than those of the table's other rows (messages, think time,
// stagger, size), or if what it calls concurrent cannot have been: a program with a thread for each client whose table
// has far fewer threads than clients. A verdict that a row brings with it is kept, unless ours is worse.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::scale {

struct CheckedRow {
	std::string transport;  // empty in published tables
	std::uint64_t clients = 0;
	double rate = 0;
	std::string validity, reason;  // valid, suspect, not comparable, invalid, n/a
};

// Whether `text` is such a table, by its columns `clients` and `success_percent`.
bool is_scale_table(std::string_view text);

// The error is one sentence with the line at fault.
std::expected<std::vector<CheckedRow>, std::string> check_table(std::string_view text);

}  // namespace verbena::scale

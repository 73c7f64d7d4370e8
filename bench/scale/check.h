// Judges a whole table of `verbena bench scale`, or the published one: whether its rows can be
// true, and whether they can be compared with each other.
//
// A row is "not comparable" if its clients did other work than those of other rows (messages, think
// time, stagger, size), or if its clients cannot have been connected at once: the published program
// has a thread for each client, and the row has far fewer threads than clients. A verdict that a
// row already has is kept, unless the one found here is worse.
//
// Threads: pure functions.
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

// Whether `text` is such a table: it has the columns `clients` and `success_percent`.
bool is_scale_table(std::string_view text);

// The error is one sentence that names the line or row at fault.
std::expected<std::vector<CheckedRow>, std::string> check_table(std::string_view text);

}  // namespace verbena::scale

// Judges a whole table of the key-value experiment, ours or published, by comparing its rows.
//
// The throughput of one operation over one protocol changes smoothly with the size. So a row is
//   suspect      if it is below 0.7 of the value interpolated from its neighbours: the run was
//                disturbed, or too short;
//   mislabelled  if it is the smallest size of rendezvous, at least 1.5 times the value
//   extrapolated
//                from the other sizes of rendezvous, and on the curve of eager;
//   invalid      if its own columns contradict each other.
// A verdict that the table itself has for a row is kept, unless ours is worse. A remark says if no
// size has both protocols, because then the table cannot show which one is faster.
//
// Threads: any; pure functions.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::kvbench {

struct CheckedRow {
	std::string op, protocol, group;  // group: the other columns that distinguish curves
	std::uint64_t value_bytes = 0;
	double gigabytes_per_second = 0;
	std::string validity = "valid", reason;
};

struct CheckedTable {
	std::vector<CheckedRow> rows;
	std::vector<std::string> remarks;  // sentences about the whole table
};

// Recognizes such a table by its columns `value_bytes`, `protocol` and `gigabytes_per_second`.
bool is_kv_table(std::string_view text);

// Reads and judges a table. The error is one sentence that names the row at fault.
std::expected<CheckedTable, std::string> check_table(std::string_view text);

}  // namespace verbena::kvbench

// Judges a whole table of the key-value experiment, ours or published, by what its rows say about each other.
//
// Throughput of one operation over one protocol changes smoothly with the size. So a row is
//   suspect      if it is below 0.7 of what the rows around it lead to (a run was disturbed, or too short to tell)
//   mislabelled  if it is the first of rendezvous, far above what the others of rendezvous lead to, and on the curve of
//   eager invalid      if its own columns contradict each other
// A verdict that a row brings with it is kept, unless ours is worse. Of the whole table it is said whether any size has
// both protocols: without one nothing can be said of which is faster.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::kvbench {

struct CheckedRow {
	std::string op, protocol, group;  // group: what else tells curves apart
	std::uint64_t value_bytes = 0;
	double gigabytes_per_second = 0;
	std::string validity = "valid", reason;
};

struct CheckedTable {
	std::vector<CheckedRow> rows;
	std::vector<std::string> remarks;
};

// By its columns `op`, `protocol` and `value_bytes`.
bool is_kv_table(std::string_view text);

// The error is one sentence with the line at fault.
std::expected<CheckedTable, std::string> check_table(std::string_view text);

}  // namespace verbena::kvbench

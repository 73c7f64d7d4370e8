// Turns runs into rows of a table, and judges whether rows can be true: our own, and published ones
// (`verbena check`).
//
//   invalid   Gb/s is not QPS x size (beyond 1 % and the rounding of the printed digits); more
//             requests were in flight than there were callers (Little's law); an answer was wrong;
//             the server served fewer requests than were answered; P99 is below P90
//   suspect   P90 is below the mean that concurrency and QPS give; or fewer requests were in flight
//             than asked for
//
// Threads: thread-safe.
#pragma once

#include <expected>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/rpc/cell.h"

namespace verbena::rpcbench {

using Json = nlohmann::ordered_json;

// The name in options and tables: "inline", "send-queue"; empty for none.
std::string_view name_of(Behaviour behaviour);

// Returns the row of a cell: the numbers of the repetition whose rate is the median, and the
// intervals of rate and P99 over all repetitions. The published columns come first, with the
// published names. `each_repetition` is for JSON: CSV omits lists.
Json row_of(const CellOptions& cell, std::span<const Outcome> repetitions);
// Returns the row of a cell that could not be run.
Json row_not_run(const CellOptions& cell, const std::string& reason);
std::string to_markdown(const std::vector<Json>& rows);

// A row of an existing table with our verdict.
struct CheckedRow {
	std::string transport, mode, size;
	std::uint64_t concurrency = 0;
	std::string validity, reason;
};
// Returns whether the text is a table of this benchmark.
bool is_rpc_table(std::string_view text);
// Judges each row of a table. Error: one sentence with the number of the row that cannot be read.
std::expected<std::vector<CheckedRow>, std::string> check_table(std::string_view text);

// Formats a size as the published table does: "128B", "4K", "1M".
std::string size_text(std::uint64_t bytes);

}  // namespace verbena::rpcbench

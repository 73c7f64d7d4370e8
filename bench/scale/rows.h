// Makes table rows of runs and judges them. A row stands for the repetitions of one cell
// (transport, clients, rate, ...).
//
// - invalid: the row cannot be true. The server's number of clients at once is not that of the
//   clients that connected, its echoes are not those that the clients verified, or more messages
//   were under way than the windows allow (Little's law: rate * mean latency <= clients * window).
// - suspect: the row needs an explanation. The offered rate was not reached, the clients did
//   unequal work (Jain's index below 0.95), or the measured time was cut short.
// - n/a: the cell was not run; the reason says why.
//
// Threads: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/connect/rows.h"
#include "bench/scale/experiment.h"

namespace verbena::scale {

using Json = nlohmann::ordered_json;

struct Verdict {
	std::string validity = "valid", reason;
};
// The verdict on one repetition.
Verdict judge(const Outcome& run);

// The row of repetitions of the same cell: medians of the figures, sums of the counts, extremes of
// the extremes. `connect` is the name for its column. The published columns keep their names.
Json row_of(std::string_view connect, std::span<const Outcome> repetitions);
// The row of a cell that was not run: n/a, with the reason. `wanted` describes the cell.
Json row_not_run(std::string_view connect, const Outcome& wanted, const std::string& reason);

// A table of the most important columns, echoes a second with their interval; CSV and JSON have all
// columns.
std::string to_markdown(const connect::Table& table);

std::vector<std::pair<std::string, std::string>> environment_of(const Outcome& run, const std::string& command_line);

}  // namespace verbena::scale

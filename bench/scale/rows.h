// From runs to table rows, judged: one row for the repetitions of one cell (transport, clients, rate). Pure functions
// over outcomes.
//
// A row is
//   invalid if it cannot be true: the server had another number of clients at once than had connected; it counted other
//   echoes than the
//           clients verified; or more was under way than windows allow (Little's law: rate * mean latency <= clients *
//           window)
//   suspect if it needs an explanation: the offered rate was not kept; the clients did unequal work (Jain's index below
//   0.95); the measured
//           time was cut short
//   n/a     if it was not run, with the reason
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
Verdict judge(const Outcome& run);

// Medians over the repetitions, which all ran the same; counts as sums, extremes as extremes. The published columns
// have the published names.
Json row_of(std::string_view connect, std::span<const Outcome> repetitions);
// The row of a cell that was not run.
Json row_not_run(std::string_view connect, const Outcome& wanted, const std::string& reason);

// What a reader compares first, a line a cell; the rest is in CSV and JSON. Connections, echoes and memory have their
// intervals.
std::string to_markdown(const connect::Table& table);

std::vector<std::pair<std::string, std::string>> environment_of(const Outcome& run, const std::string& command_line);

}  // namespace verbena::scale

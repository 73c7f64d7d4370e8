// From runs to rows, and whether rows can be true: ours, and published ones (`verbena check`).
//
//   invalid: Gb/s is not QPS x size (beyond 1 % and the rounding of the printed digits); more was in flight than there
//   were requests
//            (Little's law); an answer was wrong; the server served less than was answered; percentiles run backwards
//   suspect: P90 lies below the mean that concurrency and QPS give
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

// "inline", "send-queue"; empty for none.
std::string_view name_of(Behaviour behaviour);

// The median repetition's numbers, with the intervals of rate and P99 over all of them. The published columns come
// first, with the published names. `each_repetition` is for JSON: CSV leaves lists out.
Json row_of(const CellOptions& cell, std::span<const Outcome> repetitions);
Json row_not_run(const CellOptions& cell, const std::string& reason);
std::string to_markdown(const std::vector<Json>& rows);

struct CheckedRow {
	std::string transport, mode, size;
	std::uint64_t concurrency = 0;
	std::string validity, reason;
};
bool is_rpc_table(std::string_view text);
// The error is one sentence with the line at fault.
std::expected<std::vector<CheckedRow>, std::string> check_table(std::string_view text);

// "128B", "4K", "1M", as the published table writes sizes.
std::string size_text(std::uint64_t bytes);

}  // namespace verbena::rpcbench

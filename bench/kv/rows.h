// From runs to table rows, judged, and the other forms in which results are shown. Pure functions over values.
//
// A row is
//   invalid if it cannot be true: an operation failed or brought a wrong value; more was under way than the window
//   allows (Little's law);
//           rendezvous was asked for and something else was done
//   suspect if it needs an explanation: repetitions differ by more than half of their median; memory was registered
//   while it ran; it was
//           cut short below 100 operations
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/connect/rows.h"
#include "bench/kv/cell.h"
#include "bench/kv/trial.h"

namespace verbena::kvbench {

using connect::Json;

Json row_of(const Cell& cell, std::span<const Run> repetitions, const TrialOptions& options);

// What clients that stand still cost: how many times the P99 of each repetition beside them is that of the one without
// them, with interval.
void add_stalled(Json& row, std::span<const Run> beside, std::span<const Run> alone);

// 64 B, 4 KiB, 1 MiB
std::string bytes_text(std::uint64_t size);

// The published form: headings and lines of bytes, gigabytes a second (10^9 bytes), unit.
std::string to_published(std::span<const Json> rows);

// Both protocols at every size: who is ahead, where their intervals do not meet, and the --eager-max that follows.
// Without rows that cannot be true.
std::string to_crossover(std::span<const Json> rows);

}  // namespace verbena::kvbench

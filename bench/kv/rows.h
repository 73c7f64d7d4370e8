// Converts runs to table rows with a verdict, and rows to the other forms in which results are
// shown.
//
// A row is
//   invalid  if it cannot be true: an operation failed or returned a wrong value; more operations
//            were under way than the window allows (Little's law); or rendezvous was requested and
//            not all operations used it;
//   suspect  if it needs an explanation: repetitions differ by more than half of their median;
//            memory was registered meanwhile; one-sided GETs had to ask by message;
//            or fewer than 100 operations were timed.
//
// Threads: any; pure functions over values.
#pragma once

#include <span>
#include <string>

#include "bench/connect/rows.h"
#include "bench/kv/cell.h"
#include "bench/kv/trial.h"

namespace verbena::kvbench {

using connect::Json;

// `repetitions` are the runs of this cell, one at least.
Json row_of(const Cell& cell, std::span<const Run> repetitions, const TrialOptions& options);

// Adds the cost of stalled clients: the P99 of each repetition with them divided by the P99 of the
// one without them, as a median with its 95 % interval.
void add_stalled(Json& row, std::span<const Run> beside, std::span<const Run> alone);

// Returns a size such as "64 B", "4 KiB" or "1 MiB".
std::string bytes_text(std::uint64_t size);

// Returns the published form: headings, and lines of size, gigabytes (10^9 bytes) per second and
// unit.
std::string to_published(std::span<const Json> rows);

// Compares both protocols at every size: which one is faster, if their intervals do not overlap,
// and which --eager-max follows. Leaves out invalid rows.
std::string to_crossover(std::span<const Json> rows);

}  // namespace verbena::kvbench

// SPDX-License-Identifier: Apache-2.0
// The columns that name a cell, and the cell in words.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "bench/rcud/cell.h"
#include "bench/table/row.h"

namespace verbena::rcud {

// The names of the sweeps in the column `experiment`: cells with one queue pair, and with many.
inline constexpr std::string_view msg_sweep = "msg_sweep", qp_sweep = "qp_sweep";

bench::Json columns_of(const Cell& cell);

// "RC send 64 B window 4 local". No two cells have the same title.
std::string title(const bench::Json& row);

}  // namespace verbena::rcud

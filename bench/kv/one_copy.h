// SPDX-License-Identifier: Apache-2.0
// The rate at which one processor copies values as large as those of a cell within one process: the
// limit of a store that copies each value once.
//
// Threads: one thread.
#pragma once

#include "bench/kv/cell.h"

namespace verbena::kvbench {

// Values that are shorter than this are not measured: other costs are larger than their copy.
constexpr std::uint32_t copied_size_min = 64 * 1024;

// Copies as many different values as the cell has under way, again and again, from blocks of their
// own to blocks of their own. Returns bytes for each second; 0: not measured.
double bytes_copied_per_second(const Cell& cell);

}  // namespace verbena::kvbench

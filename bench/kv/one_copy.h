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

// Copies as many different values as the cell has under way, again and again, from memory of their
// own to places of their own. A SET has one more place, because the old value stays until the new
// one is whole: with one value, the copies go to two places in turn. Returns bytes for each second;
// 0: not measured.
double bytes_copied_per_second(const Cell& cell);

}  // namespace verbena::kvbench

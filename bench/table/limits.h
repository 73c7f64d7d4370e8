// SPDX-License-Identifier: Apache-2.0
// The limits of a table that is read: a file may come from anywhere. docs/limits.md lists them;
// report/reading.py has those that it shares.
#pragma once

#include <cstddef>

namespace verbena::bench {

inline constexpr std::size_t bytes_max = 32u << 20;
inline constexpr std::size_t rows_max = 5000;
// In a row, in each of its lists. `verbena bench` measures at most 2,000.
inline constexpr std::size_t repetitions_max = 2000;
// Columns of a row, names in the environment, and names in each object. `verbena bench` writes less
// than 64 of any.
inline constexpr std::size_t names_max = 256;
// In a value of the environment, or in a word of a row.
inline constexpr std::size_t text_bytes_max = 64u << 10;
// Lists and objects within each other. A histogram's bucket is the 7th level.
inline constexpr std::size_t depth_max = 64;

}  // namespace verbena::bench

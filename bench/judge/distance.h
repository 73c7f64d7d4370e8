// SPDX-License-Identifier: Apache-2.0
// The distance at which a repetition was measured: the round trip of a cache line between the
// processors of both ends. On a virtual machine the host moves processors, so it changes while a
// sweep runs, by a factor of four and more, and the figures with it. Repetitions at different
// distances say nothing about each other, so a row counts those at one distance, and keeps the
// others apart.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <vector>

#include "bench/table/row.h"

namespace verbena::bench {

// Distances are alike if neither is more than this many times the other.
inline constexpr double alike_factor = 1.5;

inline bool alike(double a_ns, double b_ns) { return a_ns <= alike_factor * b_ns && b_ns <= alike_factor * a_ns; }

// The line of the environment with the distance of the sweep in nanoseconds. Without it a part of
// the table would have another commonest distance than the whole.
inline constexpr const char* distance_key = "sweep_distance_ns";

// Fewer repetitions give no interval that means anything, so none is measured again for it.
inline constexpr std::size_t repetitions_of_interval = 3;

// The round trips of a repetition in nanoseconds; empty if it has none.
std::vector<double> distances_in(const Json& repetition);

// Whether all round trips of the repetition are alike `distance_ns`. True if it has none, or if the
// distance is 0; and for a failed repetition, because a failure always counts.
bool is_at(const Json& repetition, double distance_ns);

// The distance to which the most of these are alike; the smallest of several. 0 if there are none.
double common_distance(std::vector<double> distances_ns);

struct Parted {
	Json together = Json::array();  // these count
	Json apart = Json::array();
};
// Parts the repetitions of a row, which shall have `wanted`. A distance at which it has less than
// two counts as none: then the first ones count.
Parted part(const Json& repetitions, double distance_ns, std::size_t wanted);

}  // namespace verbena::bench

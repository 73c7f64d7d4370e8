// SPDX-License-Identifier: Apache-2.0
// Test fixture: repetitions and rows of this experiment that are valid in every respect.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/judge/judge.h"
#include "bench/rcud/rows.h"

namespace verbena::rcud::testing_tools {

inline const Cell cell{.mode = Mode::ud, .window_mode = WindowMode::credit, .msg = 1024, .window = 4};

inline Repetition measured(double mops) {
	Repetition repetition{.iters = 1000, .posted = 1000, .completed = 1000};
	repetition.sender_ns = static_cast<std::uint64_t>(1000e3 / mops);
	repetition.delivery = {.delivered = 1000, .counted = 999, .counted_ns = static_cast<std::uint64_t>(999e3 / mops)};
	for (int i = 0; i < 16; ++i) repetition.latency_ns.record(1000);
	repetition.rtt_before_ns = repetition.rtt_after_ns = 110;
	return repetition;
}

inline bench::Json row_with(const Cell& of, const std::vector<Repetition>& repetitions) {
	bench::Json list = bench::Json::array();
	for (const Repetition& each : repetitions) list.push_back(json_of(of, each));
	return row_of(of, "vb_lo", 4096, 1000, std::move(list));
}

// A row that is valid in every respect.
inline bench::Json good() { return row_with(cell, {measured(1.0), measured(3.0), measured(2.0)}); }

inline bench::Json good_with_every_byte() {
	std::vector<Repetition> repetitions{measured(1.0), measured(3.0), measured(2.0)};
	for (Repetition& each : repetitions) each.verified = true, each.mops_unverified = 2 * each.delivery.mops();
	// The median of the row is the first repetition's, so that each change of it shows.
	repetitions[0].mops_unverified = 5;
	return row_with(cell, repetitions);
}

inline bench::Verdict judged(const bench::Json& row, const bench::Environment& environment = {}) {
	return bench::judge(experiment(), {environment, {row}})->front();
}

}  // namespace verbena::rcud::testing_tools

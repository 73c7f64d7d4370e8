// SPDX-License-Identifier: Apache-2.0
// Test fixture: runs and rows of this experiment that are valid in every respect.
#pragma once

#include <initializer_list>

#include "bench/judge/judge.h"
#include "bench/kv/repetition.h"
#include "bench/kv/rows.h"

namespace verbena::kvbench::testing_tools {

// A run of 1,000 operations by one client, each of 1,000 ns, in 1 ms times the window.
inline Repetition good_run(const Cell& cell) {
	Repetition run{.operations = 1000, .elapsed_ns = 1'000'000, .latency_sum_ns = 1'000'000ull * cell.window};
	run.latency_ns.record(1000 * cell.window, 1000);
	run.warmup = cell.warmup;
	run.clients = cell.clients;
	run.depth_max = cell.window;
	run.core_to_core_ns = 110;
	if (cell.system != System::verbena) return run;
	run.messages = 2000;
	run.eager = 1000;
	if (cell.proto == Proto::rndv) {
		if (cell.op == Op::get) run.reads = 1000;
		else (cell.form == Form::read ? run.leased : run.writes) = 1000;
		if (cell.op == Op::set) run.eager = 0;
		if (run.writes > 0) run.messages = 4000;
	}
	if (cell.proto == Proto::one_sided) {
		run.one_sided = 1000;
		run.eager = run.messages = 0;
	}
	return run;
}

inline bench::Json row_with(const Cell& cell, std::initializer_list<Repetition> runs) {
	bench::Json repetitions = bench::Json::array();
	const std::string name = cell_name(row_of(cell, bench::Json::array()));
	static std::uint64_t number = 0;
	for (Repetition run : runs) {
		// No two runs take the same times.
		if (run.latency_sum_ns > 0) run.latency_sum_ns -= ++number;
		repetitions.push_back(json_of(cell, name, run));
	}
	return row_of(cell, std::move(repetitions));
}

inline bench::Verdict judged(const bench::Json& row, const bench::Environment& environment = {}) {
	return bench::judge(experiment(), {environment, {row}})->front();
}

}  // namespace verbena::kvbench::testing_tools

// SPDX-License-Identifier: Apache-2.0
// Test fixture: runs of a cell as they could be, and rows that are valid in every respect.
#pragma once

#include <vector>

#include "bench/judge/judge.h"
#include "bench/rpc/repetition.h"
#include "bench/rpc/rows.h"

namespace verbena::rpcbench::testing_tools {

// 16 callers over TCP.
inline CellOptions over_tcp() { return {.size = 4096, .concurrency = 16, .duration = 1'000'000'000}; }
inline CellOptions over_rdma() {
	CellOptions cell = over_tcp();
	cell.rdma = true;
	return cell;
}

// A run in which all callers wait all the time. `requests` is a divisor of 16 million.
inline Outcome run_of(const CellOptions& cell, std::uint64_t requests) {
	Outcome run{
		.requests = requests, .served = requests + 50, .callers = cell.concurrency, .seconds = 1, .client_cpu_s = 0.7};
	run.server_cpu_s = 0.3;
	const std::uint64_t each_ns = std::uint64_t{cell.concurrency} * 1'000'000'000 / requests;
	run.latency.record(each_ns, requests);
	run.latency_sum_us = static_cast<double>(each_ns * requests) / 1e3;
	run.core_to_core_ns = 110;
	if (cell.system != System::verbena) return run;
	run.frames = requests + 50;
	run.messages = cell.lacks(Behaviour::coalescing) ? run.frames : run.frames / 2;
	run.connections = cell.connections;
	if (!cell.rdma) return run;
	run.rdma.frames = run.frames;
	run.rdma.frames_inline = cell.lacks(Behaviour::inline_data) ? 0 : run.frames;
	run.rdma.registrations = cell.lacks(Behaviour::pool) ? run.frames : 7;
	run.rdma.parts_most = cell.lacks(Behaviour::send_queue) ? 1 : 4;
	run.pinned_kib = 256;
	return run;
}

inline bench::Json row_with(const CellOptions& cell, const std::vector<Outcome>& runs) {
	bench::Json list = bench::Json::array();
	for (const Outcome& each : runs) list.push_back(json_of(cell, each));
	return row_of(cell, std::move(list));
}

inline bench::Verdict judged(const bench::Json& row, const bench::Environment& environment = {}) {
	return bench::judge(experiment(), {environment, {row}})->front();
}

}  // namespace verbena::rpcbench::testing_tools

// SPDX-License-Identifier: Apache-2.0
// Test fixture: a run of four clients that is valid in every respect. Each test changes only the
// fields that it is about.
#pragma once

#include "bench/scale/repetition.h"
#include "bench/scale/rows.h"

namespace verbena::scale::testing_tools {

// Four clients with one message under way each, which takes 2 ms: 2,000 echoes a second.
inline Outcome good_run() {
	Outcome run{.cell = {.clients = 4, .message_bytes = 64, .warmup_s = 0.5, .seconds = 2}};
	for (std::uint32_t i = 0; i < run.cell.clients; ++i) {
		run.rows.push_back({.echoes = 1250, .connected = true, .connect_ms = 10, .latency_ms = 2});
		run.connect.record(10'000'000);
	}
	run.latency.record(2'000'000, 4000);
	run.latency_sum_ns = 8'000'000'000;
	run.connect_sum_ns = 40'000'000;
	run.connected = run.good = 4;
	run.echoes = 5000;
	run.connecting_ns = 20'000'000;
	run.messages_ns = 2'600'000'000;
	run.from = {.at = 1'000'000'000, .echoed = 100};
	run.to = {.at = 3'000'000'000, .echoed = 4100};
	run.to.server.cpu_seconds = 1;
	run.server.emplace();
	run.server->before.resident_bytes = 1 << 20;
	run.server->connected.resident_bytes = (1 << 20) + (64 << 10);
	run.server->after.peak_resident_bytes = (1 << 20) + (128 << 10);
	run.server->threads_peak = 3;
	run.server->peak = run.server->queue_pairs = 4;
	run.server->queue_pairs_max = 1 << 20;
	run.server->echoed = 5000;
	run.server->counters.send_posts = 5000;
	run.server->counters.receive_posts = 2500;
	return run;
}

// The same work, counted in another time: RATE echoes a second.
inline Outcome run_at(double rate) {
	Outcome run = good_run();
	const auto measured = static_cast<Nanoseconds>(4000 / rate * 1e9);
	run.messages_ns += measured - (run.to.at - run.from.at);
	run.to.at = run.from.at + measured;
	return run;
}

inline bench::Json row_of(std::initializer_list<Outcome> runs) {
	bench::Json repetitions = bench::Json::array();
	for (const Outcome& run : runs) repetitions.push_back(json_of(run));
	return scale::row_of(columns_of(runs.begin()->cell), std::move(repetitions));
}

}  // namespace verbena::scale::testing_tools

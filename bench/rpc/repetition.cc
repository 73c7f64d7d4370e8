// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/repetition.h"

#include "bench/judge/repetitions.h"
#include "bench/rpc/labels.h"

namespace verbena::rpcbench {

bench::Json json_of(const CellOptions& cell, const std::expected<Outcome, std::string>& run) {
	const Outcome outcome = run.value_or(Outcome{});
	bench::Json json{{"cell", title(columns_of(cell))}, {"requests", outcome.requests}, {"failed", outcome.failed},
		{"served", outcome.served}, {"callers", outcome.callers}, {"payload_bytes", outcome.requests * cell.size},
		{"seconds", outcome.seconds}, {"latency_sum_us", outcome.latency_sum_us},
		{"client_cpu_s", outcome.client_cpu_s}, {"server_cpu_s", outcome.server_cpu_s}, {"frames", outcome.frames},
		{"messages", outcome.messages}, {"connections", outcome.connections}, {"rdma_frames", outcome.rdma.frames},
		{"rdma_frames_inline", outcome.rdma.frames_inline}, {"registrations", outcome.rdma.registrations},
		{"parts_most", outcome.rdma.parts_most}, {"pinned_kib", outcome.pinned_kib},
		{"core_to_core_ns", outcome.core_to_core_ns > 0 ? bench::Json(outcome.core_to_core_ns) : bench::Json(nullptr)}};
	json["qps"] = qps_of(json);
	json["failure"] = run ? "" : run.error();
	bench::add_latency(json, outcome.latency, {});
	return json;
}

double qps_of(const bench::Json& repetition) {
	const double seconds = bench::number_in(repetition, "seconds");
	return seconds == 0 ? 0 : static_cast<double>(bench::count_in(repetition, "requests")) / seconds;
}

double mean_of(const bench::Json& repetition) {
	const auto requests = static_cast<double>(bench::count_in(repetition, "requests"));
	return requests == 0 ? 0 : bench::number_in(repetition, "latency_sum_us") / requests;
}

}  // namespace verbena::rpcbench

// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/repetition.h"

#include "bench/judge/repetitions.h"

namespace verbena::kvbench {
namespace {

double over_elapsed(const bench::Json& repetition, const char* name) {
	const auto elapsed = static_cast<double>(bench::count_in(repetition, "elapsed_ns"));
	return elapsed == 0 ? 0 : static_cast<double>(bench::count_in(repetition, name)) / elapsed;
}

}  // namespace

double per_second(const bench::Json& repetition) { return over_elapsed(repetition, "operations") * 1e9; }

double mean_depth(const bench::Json& repetition) { return over_elapsed(repetition, "latency_sum_ns"); }

std::uint64_t by_rendezvous(const bench::Json& repetition) {
	return bench::count_in(repetition, "reads") + bench::count_in(repetition, "writes") +
		bench::count_in(repetition, "leased");
}

bench::Json json_of(const Cell& cell, const std::string& name, const Repetition& run) {
	bench::Json json{{"cell", name}, {"operations", run.operations}, {"elapsed_ns", run.elapsed_ns},
		{"latency_sum_ns", run.latency_sum_ns}, {"payload_bytes", run.operations * cell.size}, {"wrong", run.wrong},
		{"warmup", run.warmup}, {"clients", run.clients}, {"depth_max", run.depth_max}};
	if (cell.system == System::verbena)
		json.update({{"messages", run.messages}, {"eager", run.eager}, {"reads", run.reads}, {"writes", run.writes},
			{"leased", run.leased}, {"copied", run.copied}, {"one_sided", run.one_sided},
			{"registrations", run.registrations}});
	json["operations_per_second"] = per_second(json);
	json["core_to_core_ns"] = run.core_to_core_ns > 0 ? bench::Json(run.core_to_core_ns) : bench::Json(nullptr);
	if (run.bytes_copied_per_second > 0) json["bytes_copied_per_second"] = run.bytes_copied_per_second;
	json["failure"] = run.failure;
	bench::add_latency(json, run.latency_ns, {});
	return json;
}

}  // namespace verbena::kvbench

// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/repetition.h"

#include "bench/judge/repetitions.h"
#include "bench/rcud/labels.h"

namespace verbena::rcud {

double mops_of(const bench::Json& repetition) {
	const auto ns = static_cast<double>(bench::count_in(repetition, "counted_ns"));
	const bool failed = !repetition.at("failure").get<std::string>().empty();
	return failed || ns == 0 ? 0 : static_cast<double>(bench::count_in(repetition, "counted")) * 1e3 / ns;
}

bench::Json json_of(const Cell& cell, const Repetition& repetition) {
	const Delivery& delivery = repetition.delivery;
	const auto optional = [](const std::optional<double>& value) {
		return value ? bench::Json(*value) : bench::Json(nullptr);
	};
	bench::Json json{{"cell", title(columns_of(cell))}, {"iters", repetition.iters}, {"posted", repetition.posted},
		{"completed", repetition.completed}, {"sender_ns", repetition.sender_ns}, {"delivered", delivery.delivered},
		{"duplicated", delivery.duplicated}, {"reordered", delivery.reordered}, {"corrupt", delivery.corrupt},
		{"stale", delivery.stale}, {"counted", delivery.counted}, {"counted_ns", delivery.counted_ns},
		{"payload_bytes", delivery.delivered * cell.msg}, {"mops", repetition.failure.empty() ? delivery.mops() : 0.0},
		{"rtt_before_ns", optional(repetition.rtt_before_ns)}, {"rtt_after_ns", optional(repetition.rtt_after_ns)},
		{"checked", repetition.verified ? "bytes" : "stamps"}, {"failure", repetition.failure}};
	if (repetition.verified) json["mops_unverified"] = repetition.mops_unverified;
	if (cell.qps > 0)
		json.update({{"receiver_qps", cell.mode == Mode::rc ? cell.qps : 1}, {"qps_used", delivery.qps_used}});
	json["latencies"] = repetition.latency_ns.count();
	bench::add_latency(json, repetition.latency_ns, {});
	return json;
}

}  // namespace verbena::rcud

#include "bench/rcud/repetition.h"

#include "bench/table/histogram.h"

namespace verbena::rcud {

std::uint64_t count_of(const bench::Json& repetition, const char* name) {
	const bench::Json& value = repetition.at(name);
	// A negative or broken number is no count; `at` has the exception that callers expect.
	return value.is_number_unsigned() ? value.get<std::uint64_t>()
									  : bench::Json::object().at(name).get<std::uint64_t>();
}

double mops_of(const bench::Json& repetition) {
	const auto ns = static_cast<double>(count_of(repetition, "counted_ns"));
	const bool failed = !repetition.at("failure").get<std::string>().empty();
	return failed || ns == 0 ? 0 : static_cast<double>(count_of(repetition, "counted")) * 1e3 / ns;
}

bench::Json percentile_of(const Histogram& latency, double fraction) {
	if (latency.count() == 0) return nullptr;
	return static_cast<double>(latency.quantile(fraction)) / 1e3;
}

bench::Json json_of(const Cell& cell, const Repetition& repetition) {
	const Delivery& delivery = repetition.delivery;
	const auto optional = [](const std::optional<double>& value) {
		return value ? bench::Json(*value) : bench::Json(nullptr);
	};
	bench::Json json{{"iters", repetition.iters}, {"posted", repetition.posted}, {"completed", repetition.completed},
		{"sender_ns", repetition.sender_ns}, {"delivered", delivery.delivered}, {"duplicated", delivery.duplicated},
		{"reordered", delivery.reordered}, {"corrupt", delivery.corrupt}, {"stale", delivery.stale},
		{"counted", delivery.counted}, {"counted_ns", delivery.counted_ns},
		{"payload_bytes", delivery.delivered * cell.msg}, {"mops", repetition.failure.empty() ? delivery.mops() : 0.0},
		{"latency_ns", bench::to_json(repetition.latency_ns)}, {"rtt_before_ns", optional(repetition.rtt_before_ns)},
		{"rtt_after_ns", optional(repetition.rtt_after_ns)}, {"failure", repetition.failure}};
	for (const Percentile& each : percentiles) json[each.column] = percentile_of(repetition.latency_ns, each.fraction);
	return json;
}

}  // namespace verbena::rcud

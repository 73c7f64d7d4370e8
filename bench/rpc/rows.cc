// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/rows.h"

#include <algorithm>
#include <functional>

#include "base/statistics.h"
#include "bench/judge/repetitions.h"
#include "bench/rpc/labels.h"
#include "bench/rpc/repetition.h"
#include "bench/rpc/rules.h"

namespace verbena::rpcbench {
namespace {

using bench::Column;
using bench::Json;
using bench::Kind;
using bench::Role;

constexpr Column columns[] = {
	{"request_size", Kind::word, Role::cell, true},
	{"concurrency", Kind::count, Role::cell, true},
	{"gigabits_per_second", Kind::number, Role::result, true},
	{"p90_us", Kind::number, Role::result, true},
	{"p99_us", Kind::number, Role::result, true},
	{"qps", Kind::number, Role::result, true},
	{"system", Kind::word, Role::cell},
	{"transport", Kind::word, Role::cell},
	{"mode", Kind::word, Role::cell},
	{"ablation", Kind::word, Role::cell},
	{"without", Kind::word, Role::cell},
	{"recv_mode", Kind::word, Role::cell},
	{"memory", Kind::word, Role::cell},
	{"connections", Kind::count, Role::cell},
	{"send_buffers", Kind::count, Role::setting, false, true},
	{"seconds", Kind::number, Role::setting, false, true},
	{"qps_low", Kind::number, Role::result},
	{"qps_high", Kind::number, Role::result},
	{"spread", Kind::number, Role::result, false, true},
	{"p99_us_low", Kind::number, Role::result, false, true},
	{"p99_us_high", Kind::number, Role::result, false, true},
	{"mean_us", Kind::number, Role::result, false, true},
	{"p50_us", Kind::number, Role::result},
	{"p999_us", Kind::number, Role::result},
	{"p9999_us", Kind::number, Role::result, false, true},
	{"max_us", Kind::number, Role::result, false, true},
	{"cpu_us_per_request", Kind::number, Role::result},
	{"server_cpu_us_per_request", Kind::number, Role::result, false, true},
	{"requests_per_message", Kind::number, Role::result},
	{"inline_share", Kind::number, Role::result, false, true},
	{"registrations", Kind::count, Role::result, false, true},
	{"parts_under_way", Kind::count, Role::result, false, true},
	{"connections_made", Kind::count, Role::result, false, true},
	{"pinned_kib_per_connection", Kind::number, Role::result, false, true},
	{"requests", Kind::count, Role::result, false, true},
	{"validity", Kind::word, Role::verdict},
	{"reason", Kind::word, Role::verdict},
	{"repetitions", Kind::list, Role::evidence},
	{"apart", Kind::list, Role::evidence},
};

// The quotients of two counts in the repetitions, without those whose divisor is 0.
std::vector<double> ratios(const Json& repetitions, const char* of, const char* by, double factor = 1) {
	std::vector<double> values;
	for (const Json& each : repetitions)
		if (const double divisor = bench::number_in(each, by); divisor > 0)
			values.push_back(bench::number_in(each, of) * factor / divisor);
	return values;
}

std::vector<double> values_of(const Json& repetitions, const std::function<double(const Json&)>& value) {
	std::vector<double> values;
	for (const Json& each : repetitions) values.push_back(value(each));
	return values;
}

// Null instead of a sum of 0: the transport or the system has no such count.
Json sum_or_null(const Json& repetitions, const char* name) {
	std::uint64_t sum = 0;
	for (const Json& each : repetitions) sum += bench::count_in(each, name);
	return sum == 0 ? Json(nullptr) : Json(sum);
}

void add_processor_time(Json& summary, const Json& repetitions) {
	std::vector<double> both = ratios(repetitions, "client_cpu_s", "requests", 1e6);
	const std::vector<double> servers = ratios(repetitions, "server_cpu_s", "requests", 1e6);
	for (std::size_t i = 0; i < both.size(); ++i) both[i] += servers[i];
	bench::add_plain_median(summary, "cpu_us_per_request", both);
	bench::add_plain_median(summary, "server_cpu_us_per_request", servers);
}

void add_transport(Json& summary, const Json& repetitions) {
	bench::add_plain_median(summary, "requests_per_message", ratios(repetitions, "frames", "messages"));
	bench::add_plain_median(summary, "inline_share", ratios(repetitions, "rdma_frames_inline", "rdma_frames"));
	const bool over_rdma = !sum_or_null(repetitions, "rdma_frames").is_null();
	std::uint64_t registrations = 0, parts = 0;
	for (const Json& each : repetitions) {
		registrations += bench::count_in(each, "registrations");
		parts = std::max(parts, bench::count_in(each, "parts_most"));
	}
	summary["registrations"] = over_rdma ? Json(registrations) : Json(nullptr);
	summary["parts_under_way"] = over_rdma ? Json(parts) : Json(nullptr);
	summary["connections_made"] = sum_or_null(repetitions, "connections");
	std::vector<double> pinned = bench::numbers_in(repetitions, "pinned_kib");
	std::erase(pinned, 0.0);
	bench::add_plain_median(summary, "pinned_kib_per_connection", pinned);
}

Json summarize(const Json& row, const Json& repetitions) {
	const std::vector<double> rates = values_of(repetitions, qps_of);
	const auto bytes = static_cast<double>(bytes_of(bench::word_of(row, "request_size")).value_or(0));
	std::uint64_t requests = 0;
	double latency_sum_us = 0;
	for (const Json& each : repetitions) {
		requests += bench::count_in(each, "requests");
		latency_sum_us += bench::number_in(each, "latency_sum_us");
	}
	Json summary{{"gigabits_per_second", median(rates) * bytes * 8 / 1e9}, {"spread", spread(rates)},
		{"mean_us", requests == 0 ? Json(nullptr) : Json(latency_sum_us / static_cast<double>(requests))},
		{"requests", requests}};
	bench::add_median(summary, "qps", rates);
	bench::add_median(summary, "p99_us", bench::numbers_in(repetitions, "p99_us"));
	summary.erase("p99_us");  // only its interval; the percentile is that of all requests together
	bench::summarize_latency(summary, repetitions, {});
	add_processor_time(summary, repetitions);
	add_transport(summary, repetitions);
	return summary;
}

constexpr std::string_view times[] = {"requests", "seconds", "latency_sum_us"};
constexpr bench::Latency latency{};

}  // namespace

const bench::Experiment& experiment() {
	static constexpr bench::Experiment value{.name = "rpc",
		.columns = columns,
		.title = title,
		.times = times,
		.latencies = [](const Json&) { return std::span<const bench::Latency>(&latency, 1); },
		.summarize = summarize,
		.examine_repetition = examine_repetition,
		.examine_row = examine_row,
		.examine_table = examine_table};
	return value;
}

Json row_of(const CellOptions& cell, Json repetitions) {
	Json row = columns_of(cell);
	row["send_buffers"] = cell.send_buffers == 0 ? Json(nullptr) : Json(cell.send_buffers);
	row["seconds"] = static_cast<double>(cell.duration) / 1e9;
	if (!repetitions.empty()) row.update(summarize(row, repetitions));
	row["repetitions"] = std::move(repetitions);
	return row;
}

}  // namespace verbena::rpcbench

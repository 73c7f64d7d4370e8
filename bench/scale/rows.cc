// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/statistics.h"
#include "bench/scale/repetition.h"
#include "bench/scale/rules.h"
#include "bench/scale/table_rules.h"

namespace verbena::scale {
namespace {

using bench::Column;
using bench::count_in;
using bench::Json;
using bench::Kind;
using bench::Role;
using bench::word_of;

constexpr Column published_column(std::string_view name, Role role, Kind kind = Kind::number) {
	return {.name = name, .kind = kind, .role = role, .is_published = true};
}
constexpr Column detail(std::string_view name, Role role, Kind kind = Kind::number) {
	return {.name = name, .kind = kind, .role = role, .is_detail = true};
}

constexpr Column columns[] = {
	published_column("clients", Role::cell, Kind::count),
	published_column("success_percent", Role::result),
	published_column("avg_connect_ms", Role::result),
	published_column("avg_latency_ms", Role::result),
	published_column("messages_per_second", Role::result),
	published_column("peak_memory_mb", Role::result),
	published_column("peak_threads", Role::result),
	{"system", Kind::word, Role::cell},
	{"transport", Kind::word, Role::cell},
	{"connect", Kind::word, Role::cell},
	{"engine", Kind::word, Role::cell},
	{"rate", Kind::number, Role::cell},
	{"size", Kind::count, Role::cell},
	{"window", Kind::count, Role::cell},
	{"shared_qps", Kind::count, Role::cell},
	{"without", Kind::word, Role::cell},
	{"stalled", Kind::count, Role::cell},
	detail("server", Role::setting, Kind::word),
	detail("messages", Role::setting, Kind::count),
	detail("think_ms", Role::setting),
	detail("stagger_ms", Role::setting),
	detail("handshakes", Role::setting, Kind::count),
	detail("warmup_s", Role::setting),
	detail("seconds", Role::setting),
	{"messages_per_second_low", Kind::number, Role::result},
	{"messages_per_second_high", Kind::number, Role::result},
	{"spread", Kind::number, Role::result},
	{"connect_p50_ms", Kind::number, Role::result},
	detail("connect_p90_ms", Role::result),
	{"connect_p99_ms", Kind::number, Role::result},
	detail("connect_p999_ms", Role::result),
	detail("connect_p9999_ms", Role::result),
	detail("connect_max_ms", Role::result),
	{"latency_p50_ms", Kind::number, Role::result},
	detail("latency_p90_ms", Role::result),
	{"latency_p99_ms", Kind::number, Role::result},
	detail("latency_p999_ms", Role::result),
	detail("latency_p9999_ms", Role::result),
	{"latency_max_ms", Kind::number, Role::result},
	{"connections_per_s", Kind::number, Role::result},
	detail("connections_per_s_low", Role::result),
	detail("connections_per_s_high", Role::result),
	{"server_kib_per_connection", Kind::number, Role::result},
	detail("server_kib_per_connection_low", Role::result),
	detail("server_kib_per_connection_high", Role::result),
	detail("server_peak_kib_per_connection", Role::result),
	{"server_cpu_percent", Kind::number, Role::result},
	detail("clients_cpu_percent", Role::result),
	{"server_switches_per_s", Kind::number, Role::result},
	detail("clients_switches_per_s", Role::result),
	detail("peak_clients", Role::result),
	{"qps", Kind::number, Role::result},
	{"distinct_ids", Kind::number, Role::result},
	detail("server_echoes", Role::result, Kind::count),
	detail("client_echoes", Role::result, Kind::count),
	{"server_idle_cpu_percent", Kind::number, Role::result},
	{"doorbells_per_echo", Kind::number, Role::result},
	detail("doorbells_per_echo_low", Role::result),
	detail("doorbells_per_echo_high", Role::result),
	{"jain", Kind::number, Role::result},
	detail("failed_connect", Role::result, Kind::count),
	detail("failed_timed_out", Role::result, Kind::count),
	detail("failed_no_descriptor", Role::result, Kind::count),
	detail("failed_no_port", Role::result, Kind::count),
	detail("failed_lost", Role::result, Kind::count),
	detail("failed_wrong_echo", Role::result, Kind::count),
	detail("round_trip_ns", Role::result),
	{"validity", Kind::word, Role::verdict},
	{"reason", Kind::word, Role::verdict},
	{"repetitions", Kind::list, Role::evidence},
	{"apart", Kind::list, Role::evidence},
};

std::string title(const Json& row) {
	std::string text = word_of(row, "system") == "redis" ? "redis with " : "";
	if (const std::string engine = word_of(row, "engine"); !engine.empty() && engine != "epoll") text = engine + ": ";
	text += word_of(row, "clients") + " clients";
	if (const std::string transport = word_of(row, "transport"); !transport.empty()) text += " over " + transport;
	const std::string connect = word_of(row, "connect");
	if (connect.starts_with("rdmacm")) text += " by rdma_cm";
	if (connect.ends_with("clear") && word_of(row, "system") != "redis") text += " in clear";
	const auto some = [&](const char* column) {
		const auto number = bench::number_of(row, column);
		return number && number->value > 0 ? number->value : 0;
	};
	if (const double shared = some("shared_qps"); shared > 0) text += fmt::format(" on {} queue pairs", shared);
	if (const double rate = some("rate"); rate > 0) text += fmt::format(" at {}/s", rate);
	if (const double stalled = some("stalled"); stalled > 0) text += fmt::format(" beside {} stalled", stalled);
	if (const std::string without = word_of(row, "without"); !without.empty()) text += " without " + without;
	return text;
}

// A row has no figure in a column that summarize() does not fill. The percentiles are left out, as
// repetitions that came from CSV have no histograms.
Json without_figures() {
	Json summary = Json::object();
	for (const Column& column : columns) {
		const bool is_percentile = (column.name.starts_with("connect_") || column.name.starts_with("latency_"));
		if (column.role == Role::result && !is_percentile) summary[std::string(column.name)] = nullptr;
	}
	return summary;
}

// The number itself for a figure that is a sum over all repetitions.
std::uint64_t sum_of(const Json& repetitions, const std::string& name) {
	std::uint64_t sum = 0;
	for (const Json& each : repetitions)
		if (!each.at(name).is_null()) sum += count_in(each, name);
	return sum;
}

Figure number(const char* name, double unit = 1) {
	return [=](const Json& one) -> std::optional<double> {
		if (one.at(name).is_null()) return {};
		return bench::number_in(one, name) / unit;
	};
}

// NAME, a time on a core in nanoseconds, in percent of a core during TIME.
Figure cpu_percent(const char* name, const char* time_ns) {
	return [=](const Json& one) -> std::optional<double> {
		const auto share = per_second(one, name, time_ns);
		return share ? std::optional(100 * *share / 1e9) : std::nullopt;
	};
}

std::optional<double> doorbells(const Json& one) {
	if (one.at("send_posts").is_null() || count_in(one, "echoes") == 0) return {};
	return static_cast<double>(count_in(one, "send_posts") + count_in(one, "receive_posts")) /
		static_cast<double>(count_in(one, "echoes"));
}

void add_counts(Json& summary, const Json& measured) {
	std::uint64_t clients = 0;
	for (const Json& each : measured) clients += clients_of(each);
	if (clients > 0)
		summary["success_percent"] =
			100.0 * static_cast<double>(sum_of(measured, "good")) / static_cast<double>(clients);
	summary["client_echoes"] = sum_of(measured, "echoes");
	if (std::ranges::all_of(measured, has_server)) summary["server_echoes"] = sum_of(measured, "server_echoes");
	for (std::size_t cause = 1; cause < causes; ++cause) {
		const std::string name = column_of(static_cast<Cause>(cause));
		summary[name] = sum_of(measured, name);
	}
}

void summarize_ours(Json& summary, const Json& measured) {
	const auto plain = [&](const char* column, const Figure& figure) {
		bench::add_plain_median(summary, column, values_of(measured, figure));
	};
	add_counts(summary, measured);
	plain("avg_connect_ms", [](const Json& one) { return mean_of(one, "connect_sum_ns", "connected"); });
	plain("avg_latency_ms", [](const Json& one) { return mean_of(one, "latency_sum_ns", "latencies"); });
	plain("peak_memory_mb", number("resident_peak", 1 << 20));
	plain("peak_threads", number("threads"));
	bench::summarize_latency(summary, measured, connect_times);
	bench::summarize_latency(summary, measured, echo_times);
	bench::add_median(summary, "connections_per_s",
		values_of(measured, [](const Json& one) { return per_second(one, "connected", "connecting_ns"); }));
	bench::add_median(summary, "server_kib_per_connection",
		values_of(measured, [](const Json& one) { return kib_per_connection(one, "resident_connected"); }));
	plain("server_peak_kib_per_connection", [](const Json& one) { return kib_per_connection(one, "resident_peak"); });
	plain("server_cpu_percent", cpu_percent("server_cpu_ns", "window_ns"));
	plain("clients_cpu_percent", cpu_percent("clients_cpu_ns", "window_ns"));
	plain("server_idle_cpu_percent", cpu_percent("idle_cpu_ns", "idle_ns"));
	plain("server_switches_per_s", [](const Json& one) { return per_second(one, "server_switches", "window_ns"); });
	plain("clients_switches_per_s", [](const Json& one) { return per_second(one, "clients_switches", "window_ns"); });
	plain("peak_clients", number("peak_clients"));
	plain("qps", number("queue_pairs"));
	plain("distinct_ids", number("distinct_ids"));
	bench::add_median(summary, "doorbells_per_echo", values_of(measured, doorbells));
	plain("jain", fairness_of);
}

void summarize_redis(Json& summary, const Json& measured) {
	for (const bench::Latency& times : {connect_times, echo_times})
		for (const char* percentile : {"p50", "p90", "p99", "p999", "p9999", "max"})
			summary[fmt::format("{}{}{}", times.prefix, percentile, times.suffix)] = nullptr;
	for (const char* name : {"avg_latency_ms", "latency_p50_ms", "latency_p99_ms"})
		bench::add_plain_median(summary, name, values_of(measured, number(name)));
	if (const auto most = values_of(measured, number("latency_max_ms")); !most.empty())
		summary["latency_max_ms"] = std::ranges::max(most);
}

Json summarize(const Json& row, const Json& repetitions) {
	const bool redis = word_of(row, "system") == "redis";
	Json measured = Json::array(), summary = without_figures();
	for (const Json& each : repetitions)
		if (!has_failed(each)) measured.push_back(each);
	if (measured.empty()) return summary;
	const auto rates = values_of(measured, redis ? number("requests_per_s") : Figure(rate_of));
	bench::add_median(summary, "messages_per_second", rates);
	summary["spread"] = rates.empty() ? Json(nullptr) : Json(spread(rates));
	if (redis) summarize_redis(summary, measured);
	else summarize_ours(summary, measured);
	bench::add_plain_median(summary, "round_trip_ns", values_of(measured, number("round_trip_ns")));
	return summary;
}

constexpr std::string_view times[] = {
	"counted_ns", "messages_ns", "connecting_ns", "connect_sum_ns", "latency_sum_ns", "elapsed_ns", "requests_per_s"};
constexpr bench::Latency latencies[] = {connect_times, echo_times};

}  // namespace

const bench::Experiment& experiment() {
	static constexpr bench::Experiment value{.name = "scale",
		.columns = columns,
		.title = title,
		.times = times,
		.latencies =
			[](const Json& row) {
				return bench::word_of(row, "system") == "redis" ? std::span<const bench::Latency>()
																: std::span<const bench::Latency>(latencies);
			},
		.summarize = summarize,
		.examine_repetition = examine_repetition,
		.examine_row = examine_row,
		.examine_table = examine_table};
	return value;
}

Json row_of(const Json& cell, Json repetitions) {
	Json row = cell;
	row.update(summarize(row, repetitions));
	row["repetitions"] = std::move(repetitions);
	return row;
}

}  // namespace verbena::scale

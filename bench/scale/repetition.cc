// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/repetition.h"

#include <algorithm>

namespace verbena::scale {
namespace {

using bench::count_in;
using bench::Json;

// The difference of two samples of a count that only rises; null if it did not, so that it is not
// known.
Json risen(std::uint64_t from, std::uint64_t to) { return to >= from ? Json(to - from) : Json(nullptr); }

Json switches_between(const ProcessUse& from, const ProcessUse& to) {
	return risen(from.voluntary_switches + from.involuntary_switches, to.voluntary_switches + to.involuntary_switches);
}

Json cpu_between(const ProcessUse& from, const ProcessUse& to) {
	const auto ns = [](double seconds) { return static_cast<std::uint64_t>(seconds * 1e9); };
	return risen(ns(from.cpu_seconds), ns(to.cpu_seconds));
}

void add_server(Json& json, const Outcome& run) {
	const ServerAccount server = run.server.value_or(ServerAccount{});
	const bool rdma = run.cell.transport == Transport::rdma;
	const bool idle = run.idle_from.at > 0 && run.idle_to.at > run.idle_from.at;
	const auto only = [](bool known, std::uint64_t count) { return known ? Json(count) : Json(nullptr); };
	Json counts{{"server_echoes", server.echoed}, {"peak_clients", server.peak}, {"queue_pairs", server.queue_pairs},
		{"distinct_ids", only(run.cell.logical(), server.labels)}, {"threads", server.threads_peak},
		{"resident_before", server.before.resident_bytes}, {"resident_connected", server.connected.resident_bytes},
		{"resident_peak", server.after.peak_resident_bytes}, {"kernel_before", server.kernel_before},
		{"kernel_connected", server.kernel_connected}, {"server_cpu_ns", cpu_between(run.from.server, run.to.server)},
		{"server_switches", switches_between(run.from.server, run.to.server)},
		{"send_posts", only(rdma, server.counters.send_posts)},
		{"receive_posts", only(rdma, server.counters.receive_posts)}, {"queue_pairs_max", server.queue_pairs_max},
		{"idle_ns", only(idle, run.idle_to.at - run.idle_from.at)},
		{"idle_cpu_ns", idle ? cpu_between(run.idle_from.server, run.idle_to.server) : Json(nullptr)}};
	for (const auto& [name, value] : counts.items()) json[name] = run.server ? value : Json(nullptr);
}

}  // namespace

Json json_of(const Outcome& run) {
	const bool timed = run.cell.timed();
	std::uint64_t squares = 0;
	for (const ClientRow& row : run.rows) squares += std::uint64_t{row.echoes} * row.echoes;
	// A server elsewhere does not report its count, so the clients' count stands for it.
	const std::uint64_t counted = !timed ? run.echoes
		: run.server                     ? run.to.echoed - run.from.echoed
										 : run.latency.count();
	Json json{{"cell", columns_of(run.cell)}, {"failure", ""}, {"good", run.good}, {"connected", run.connected},
		{"echoes", run.echoes}, {"echoes_squared", squares}, {"payload_bytes", run.echoes * run.cell.message_bytes},
		{"connecting_ns", run.connecting_ns}, {"messages_ns", run.messages_ns}, {"window_ns", run.window_ns()},
		{"counted", counted}, {"counted_ns", timed ? run.window_ns() : run.messages_ns},
		{"connect_sum_ns", run.connect_sum_ns}, {"latency_sum_ns", run.latency_sum_ns},
		{"latencies", run.latency.count()}, {"clients_cpu_ns", cpu_between(run.from.clients, run.to.clients)},
		{"clients_switches", switches_between(run.from.clients, run.to.clients)}};
	for (std::size_t cause = 1; cause < causes; ++cause)
		json[column_of(static_cast<Cause>(cause))] = run.failures[cause];
	add_server(json, run);
	json["round_trip_ns"] = run.round_trip_ns ? Json(*run.round_trip_ns) : Json(nullptr);
	bench::add_latency(json, run.connect, connect_times);
	bench::add_latency(json, run.latency, echo_times);
	return json;
}

Json json_of(const RedisRun& run, const Json& cell, std::optional<double> round_trip_ns) {
	Json json{{"cell", cell}, {"failure", ""}, {"requests", run.requests}, {"elapsed_ns", run.elapsed_ns},
		{"requests_per_s", run.requests_per_s}};
	for (const auto& [name, value] :
		{std::pair("avg_latency_ms", run.latency.mean_ms), std::pair("latency_p50_ms", run.latency.p50_ms),
			std::pair("latency_p99_ms", run.latency.p99_ms), std::pair("latency_max_ms", run.latency.max_ms)})
		json[name] = value ? Json(*value) : Json(nullptr);
	json["round_trip_ns"] = round_trip_ns ? Json(*round_trip_ns) : Json(nullptr);
	return json;
}

Json failed_repetition(const Json& cell, const std::string& failure) { return {{"cell", cell}, {"failure", failure}}; }

bool has_failed(const Json& repetition) { return !repetition.at("failure").get<std::string>().empty(); }

bool has_server(const Json& repetition) { return !repetition.at("server_echoes").is_null(); }

std::string column_of(Cause cause) {
	std::string name = "failed_" + std::string(name_of(cause));
	std::ranges::replace(name, ' ', '_');
	return name;
}

std::uint64_t clients_of(const Json& repetition) {
	std::uint64_t clients = count_in(repetition, "good");
	for (std::size_t cause = 1; cause < causes; ++cause)
		clients += count_in(repetition, column_of(static_cast<Cause>(cause)));
	return clients;
}

std::optional<double> rate_of(const Json& repetition) { return per_second(repetition, "counted", "counted_ns"); }

std::optional<double> mean_of(const Json& repetition, const char* sum_ns, const char* count) {
	const std::uint64_t all = count_in(repetition, count);
	if (all == 0) return {};
	return static_cast<double>(count_in(repetition, sum_ns)) / static_cast<double>(all) / 1e6;
}

std::optional<double> fairness_of(const Json& repetition) {
	const auto sum = static_cast<double>(count_in(repetition, "echoes")),
			   squares = static_cast<double>(count_in(repetition, "echoes_squared"));
	if (squares == 0) return {};
	return sum * sum / (static_cast<double>(clients_of(repetition)) * squares);
}

std::optional<double> kib_per_connection(const Json& repetition, const char* name) {
	const std::uint64_t connected = count_in(repetition, "connected");
	if (!has_server(repetition) || connected == 0) return {};
	const std::uint64_t before = count_in(repetition, "resident_before"), now = count_in(repetition, name);
	return static_cast<double>(now - std::min(now, before)) / 1024 / static_cast<double>(connected);
}

std::optional<double> per_second(const Json& repetition, const char* name, const char* time_ns) {
	if (repetition.at(name).is_null() || repetition.at(time_ns).is_null()) return {};
	const std::uint64_t time = count_in(repetition, time_ns);
	if (time == 0) return {};
	return static_cast<double>(count_in(repetition, name)) * 1e9 / static_cast<double>(time);
}

std::vector<double> values_of(const Json& repetitions, const Figure& figure) {
	std::vector<double> values;
	for (const Json& each : repetitions)
		if (!has_failed(each))
			if (const auto value = figure(each)) values.push_back(*value);
	return values;
}

}  // namespace verbena::scale

#include "bench/scale/rows.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/statistics.h"
#include "bench/environment.h"
#include "bench/table/row.h"

namespace verbena::scale {
namespace {

constexpr double little_tolerance = 1.05;  // for the error of a mean of measured times
constexpr double rate_kept = 0.9, window_kept = 0.9;
constexpr double fair = 0.95;
// Messages of a client on average from which on work is compared. With fewer, clients differ only
// because the measured time ends between one message and the next.
constexpr double messages_for_fairness = 10;

using Value = std::function<std::optional<double>(const Outcome&)>;

std::vector<double> values_of(std::span<const Outcome> runs, const Value& value) {
	std::vector<double> values;
	for (const Outcome& run : runs)
		if (const auto each = value(run)) values.push_back(*each);
	return values;
}

Json median_of(std::span<const Outcome> runs, const Value& value) {
	const auto values = values_of(runs, value);
	return values.empty() ? Json(nullptr) : Json(median(values));
}

Json whole(const Json& count) {
	return count.is_null() ? count : Json(static_cast<std::uint64_t>(count.get<double>()));
}

void add_interval(Json& row, const std::string& name, std::span<const Outcome> runs, const Value& value) {
	const auto values = values_of(runs, value);
	row[name + "_low"] = values.empty() ? Json(nullptr) : Json(median_interval(values).low);
	row[name + "_high"] = values.empty() ? Json(nullptr) : Json(median_interval(values).high);
}

void add_with_interval(Json& row, const std::string& name, std::span<const Outcome> runs, const Value& value) {
	row[name] = median_of(runs, value);
	add_interval(row, name, runs, value);
}

double ms(std::uint64_t ns) { return static_cast<double>(ns) / 1e6; }

void add_times(Json& row, const std::string& name, std::span<const Outcome> runs, const Histogram Outcome::* times) {
	const auto at = [&](double fraction) {
		return median_of(runs, [&](const Outcome& run) -> std::optional<double> {
			return (run.*times).count() > 0 ? std::optional(ms((run.*times).quantile(fraction))) : std::nullopt;
		});
	};
	row[name + "_p50_ms"] = at(0.5);
	row[name + "_p99_ms"] = at(0.99);
	row[name + "_p999_ms"] = at(0.999);
	std::uint64_t largest = 0;
	for (const Outcome& run : runs) largest = std::max(largest, (run.*times).max());
	row[name + "_max_ms"] = ms(largest);
}

// The use of CPU in the measured time, in percent of a core; and the number of context switches.
double cpu_percent(const ProcessUse& from, const ProcessUse& to, double seconds) {
	return seconds > 0 ? 100 * (to.cpu_seconds - from.cpu_seconds) / seconds : 0;
}
double switches(const ProcessUse& from, const ProcessUse& to) {
	return static_cast<double>(to.voluntary_switches + to.involuntary_switches) -
		static_cast<double>(from.voluntary_switches + from.involuntary_switches);
}

template <class T> std::optional<double> of_server(const Outcome& run, T ServerAccount::* member) {
	return run.server ? std::optional(static_cast<double>((*run.server).*member)) : std::nullopt;
}

Json repetition_of(const Outcome& run) {
	Json one{{"success_percent", run.success_percent()}, {"messages_per_second", run.messages_per_s()},
		{"connections_per_s", run.connections_per_s()}, {"avg_latency_ms", run.mean_latency_ms()},
		{"echoes", run.echoes}, {"window_s", run.window_s()}, {"jain", run.fairness()}};
	if (run.server) one.update({{"peak_clients", run.server->peak}, {"server_echoes", run.server->echoed}});
	one["round_trip_ns"] = run.round_trip_ns ? Json(*run.round_trip_ns) : Json(nullptr);
	const Verdict verdict = judge(run);
	one["validity"] = verdict.validity;
	one["reason"] = verdict.reason;
	return one;
}

// The first columns of a row.
Json beginning_of(std::string_view connect, const Outcome& run) {
	return {{"experiment", "scale"}, {"transport", name_of(run.transport)},
		{"connect", run.in_clear ? "clear" : connect}, {"clients", run.clients}};
}

// Adds the columns that describe the clients' work.
void add_work(Json& row, const Outcome& run) {
	row["rate"] = run.rate;
	row["size"] = run.message_bytes;
	row["window"] = run.window;
	row["shared_qps"] = run.queue_pairs;
	row["engine"] = name_of(run.engine);
	row["without"] = name_of(run.without);
	row["messages"] = run.messages;
	row["think_ms"] = run.think_ms;
	row["stagger_ms"] = run.stagger_ms;
	row["handshakes"] = run.handshakes;
	row["seconds"] = run.seconds;
}

}  // namespace

Verdict judge(const Outcome& run) {
	const auto invalid = [](std::string reason) { return Verdict{"invalid", std::move(reason)}; };
	const auto suspect = [](std::string reason) { return Verdict{"suspect", std::move(reason)}; };
	if (run.server) {
		const ServerAccount& server = *run.server;
		// The server may or may not have counted a client that broke off, so compare exactly only
		// if all clients succeeded.
		if (server.peak < run.connected || (run.good == run.clients && server.peak > run.clients))
			return invalid(
				fmt::format("the server had {} clients at once, but {} had connected", server.peak, run.connected));
		if (run.queue_pairs > 0 && run.good == run.clients && server.labels != run.clients)
			return invalid(fmt::format(
				"the server counted {} different logical clients instead of {}", server.labels, run.clients));
		if (run.queue_pairs > 0 && server.queue_pairs > run.queue_pairs)
			return invalid(fmt::format(
				"the server had {} queue pairs, but only {} were to be shared", server.queue_pairs, run.queue_pairs));
		if (run.good == run.clients ? server.echoed != run.echoes : server.echoed < run.echoes)
			return invalid(
				fmt::format("the server counted {} echoes, but the clients verified {}", server.echoed, run.echoes));
	}
	const double under_way = run.messages_per_s() * run.mean_latency_ms() / 1e3;
	if (const double most = static_cast<double>(run.clients) * run.window;
		under_way > most * little_tolerance && run.rate <= 0)
		return invalid(
			fmt::format("{:.1f} messages under way on average, but the windows allow {:.0f}", under_way, most));
	if (run.good < run.clients) return {};  // success_percent and the failed_ columns show it
	if (run.timed() && run.window_s() < window_kept * run.seconds)
		return suspect(fmt::format("measured for {:.2f} of {:.2f} s, because a client had sent all of its messages",
			run.window_s(), run.seconds));
	if (run.timed() && run.rate > 0 && run.messages_per_s() < rate_kept * run.rate)
		return suspect(fmt::format(
			"the rate was not reached: {:.0f} of {:.0f} messages a second", run.messages_per_s(), run.rate));
	if (run.timed() && run.rate <= 0 && static_cast<double>(run.echoes) >= messages_for_fairness * run.clients &&
		run.fairness() < fair)
		return suspect(fmt::format("the clients did unequal work: Jain's index is {:.2f}", run.fairness()));
	return {};
}

Json row_of(std::string_view connect, std::span<const Outcome> runs) {
	const Outcome& first = runs.front();
	Json row = beginning_of(connect, first);
	std::uint64_t good = 0, clients = 0, echoes = 0, server_echoes = 0;
	for (const Outcome& run : runs) {
		good += run.good;
		clients += run.clients;
		echoes += run.echoes;
		server_echoes += run.server ? run.server->echoed : 0;
	}
	row["success_percent"] = 100.0 * static_cast<double>(good) / static_cast<double>(clients);
	row["avg_connect_ms"] = median_of(runs, [](const Outcome& run) { return run.mean_connect_ms(); });
	row["avg_latency_ms"] = median_of(runs, [](const Outcome& run) { return run.mean_latency_ms(); });
	const Value rate = [](const Outcome& run) { return run.messages_per_s(); };
	row["messages_per_second"] = median_of(runs, rate);
	row["peak_memory_mb"] = median_of(runs, [](const Outcome& run) -> std::optional<double> {
		if (!run.server) return {};
		return static_cast<double>(run.server->after.peak_resident_bytes) / (1 << 20);
	});
	row["peak_threads"] =
		median_of(runs, [](const Outcome& run) { return of_server(run, &ServerAccount::threads_peak); });
	add_work(row, first);
	add_interval(row, "messages_per_second", runs, rate);
	row["spread"] = spread(values_of(runs, rate));
	add_times(row, "connect", runs, &Outcome::connect);
	add_times(row, "latency", runs, &Outcome::latency);
	add_with_interval(row, "connections_per_s", runs, [](const Outcome& run) { return run.connections_per_s(); });
	add_with_interval(
		row, "server_kib_per_connection", runs, [](const Outcome& run) { return run.server_kib_per_connection(); });
	row["server_peak_kib_per_connection"] =
		median_of(runs, [](const Outcome& run) { return run.server_peak_kib_per_connection(); });
	row["server_cpu_percent"] =
		median_of(runs, [](const Outcome& run) { return cpu_percent(run.from.server, run.to.server, run.window_s()); });
	row["clients_cpu_percent"] = median_of(
		runs, [](const Outcome& run) { return cpu_percent(run.from.clients, run.to.clients, run.window_s()); });
	row["server_switches_per_s"] = median_of(runs, [](const Outcome& run) {
		return run.window_s() > 0 ? switches(run.from.server, run.to.server) / run.window_s() : 0;
	});
	row["clients_switches_per_s"] = median_of(runs, [](const Outcome& run) {
		return run.window_s() > 0 ? switches(run.from.clients, run.to.clients) / run.window_s() : 0;
	});
	row["peak_clients"] = median_of(runs, [](const Outcome& run) { return of_server(run, &ServerAccount::peak); });
	row["qps"] = whole(median_of(runs, [](const Outcome& run) { return of_server(run, &ServerAccount::queue_pairs); }));
	row["distinct_ids"] = first.queue_pairs > 0
		? whole(median_of(runs, [](const Outcome& run) { return of_server(run, &ServerAccount::labels); }))
		: Json(nullptr);
	row["server_echoes"] = server_echoes;
	row["client_echoes"] = echoes;
	row["server_idle_cpu_percent"] = median_of(runs, [](const Outcome& run) { return run.idle_cpu_percent(); });
	add_with_interval(row, "doorbells_per_echo", runs, [](const Outcome& run) { return run.doorbells_per_echo(); });
	row["stalled"] = first.stalled;
	row["jain"] = median_of(runs, [](const Outcome& run) { return run.fairness(); });
	for (std::size_t cause = 1; cause < causes; ++cause) {
		std::uint64_t failed = 0;
		for (const Outcome& run : runs) failed += run.failures[cause];
		std::string name(name_of(static_cast<Cause>(cause)));
		std::ranges::replace(name, ' ', '_');
		row["failed_" + name] = failed;
	}
	row["round_trip_ns"] = median_of(runs, [](const Outcome& run) { return run.round_trip_ns; });
	Verdict worst;
	for (std::size_t i = 0; i < runs.size(); ++i) {
		const Verdict each = judge(runs[i]);
		if (each.validity == "valid" || worst.validity == "invalid" || worst.validity == each.validity) continue;
		worst = {each.validity, runs.size() > 1 ? fmt::format("repetition {}: {}", i + 1, each.reason) : each.reason};
	}
	row["validity"] = worst.validity;
	row["reason"] = worst.reason;
	row["repetitions"] = Json::array();
	for (const Outcome& run : runs) row["repetitions"].push_back(repetition_of(run));
	return row;
}

Json row_not_run(std::string_view connect, const Outcome& wanted, const std::string& reason) {
	Json row = row_of(connect, std::span(&wanted, 1));
	const Json kept = beginning_of(connect, wanted);
	Json work;
	add_work(work, wanted);
	for (auto& [key, value] : row.items())
		if (!kept.contains(key) && !work.contains(key)) value = nullptr;
	row["validity"] = "n/a";
	row["reason"] = reason;
	row["repetitions"] = Json::array();
	return row;
}

std::string to_markdown(const connect::Table& table) {
	struct Column {
		const char *key, *title;
		bool has_interval = false;
	};
	std::vector<Column> columns{{"transport", "transport"}, {"engine", "engine"}, {"clients", "clients"},
		{"qps", "QPs"}, {"rate", "offered msg/s"}, {"success_percent", "success %"},
		{"connect_p50_ms", "connect p50 ms"}, {"connect_p99_ms", "connect p99 ms"},
		{"connections_per_s", "connections/s"}, {"messages_per_second", "echoes/s", true}, {"jain", "Jain's index"},
		{"latency_p50_ms", "latency p50 ms"}, {"latency_p99_ms", "latency p99 ms"},
		{"server_kib_per_connection", "server KiB/connection"}, {"peak_threads", "threads"},
		{"server_cpu_percent", "server CPU %"}, {"server_switches_per_s", "server switches/s"}};
	if (table.rows.front().contains("over_redis"))
		columns.insert(columns.end(), {{"redis_per_second", "redis req/s"}, {"over_redis", "times redis"}});
	if (std::ranges::any_of(table.rows, [](const Json& row) { return row["without"] != ""; }))
		columns.insert(columns.end(), {{"without", "without"}, {"doorbells_per_echo", "doorbells/echo", true}});
	columns.insert(columns.end(), {{"validity", "validity"}, {"reason", "reason"}});
	const auto text_of = [](const Json& value) {
		if (value.is_string()) return value.get<std::string>();
		if (value.is_number_float() && (value.get<double>() < 1000 || value.get<double>() >= 1e15))
			return bench::three_digits(value.get<double>());
		return value.is_null() ? std::string() : fmt::format("{:.0f}", value.get<double>());
	};
	std::string text = "|", rule = "|";
	for (const Column& column : columns) {
		text += fmt::format(" {} |", column.title);
		rule += table.rows.front()[column.key].is_string() ? " --- |" : " ---: |";
	}
	text += '\n' + rule + '\n';
	for (const Json& row : table.rows) {
		text += '|';
		for (const Column& column : columns) {
			const std::string name = column.key;
			text += ' ' + text_of(row[name]);
			if (column.has_interval && row[name].is_number())
				text += fmt::format(" [{}, {}]", text_of(row[name + "_low"]), text_of(row[name + "_high"]));
			text += " |";
		}
		text += '\n';
	}
	text += '\n';
	for (const auto& [key, value] : table.environment) text += fmt::format("- {}: {}\n", key, value);
	return text;
}

std::vector<std::pair<std::string, std::string>> environment_of(const Outcome& run, const std::string& command_line) {
	const channel::Path& path = run.server && !run.server->path.device.empty() ? run.server->path : run.path;
	const bool known = !path.device.empty();
	const auto memory =
		static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
	return {
		{"device", path.device},
		{"kind",
			!known                               ? ""
				: path.device.starts_with("vb_") ? "software"
												 : "hardware"},
		{"gid", path.gid},
		{"mtu", known ? std::to_string(path.mtu) : ""},
		{"server", run.server ? "a process of its own on this host" : "elsewhere"},
		{"cpu", bench::cpu_name()},
		{"cores", fmt::format("{}, not pinned", sysconf(_SC_NPROCESSORS_ONLN))},
		{"memory_bytes", std::to_string(memory)},
		{"kernel", bench::kernel_name()},
		{"core_to_core_ns", run.round_trip_ns ? fmt::format("{:.0f}", *run.round_trip_ns) : ""},
		{"commit", bench::commit()},
		{"date", bench::utc_now()},
		{"command", command_line},
	};
}

}  // namespace verbena::scale

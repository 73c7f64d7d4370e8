// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/judge/judge.h"
#include "bench/judge/least_times.h"
#include "bench/judge/means.h"
#include "bench/judge/processor_time.h"
#include "bench/scale/repetition.h"
#include "bench/scale/traffic_rules.h"

namespace verbena::scale {
namespace {

using bench::count_in;
using bench::Findings;
using bench::Json;
using bench::number_of;
using bench::word_of;

// The kernel counts resident memory in batches for each core, so a peak may be a little too low.
constexpr double resident_tolerance = 1.25;
// A client's time to connect begins when its turn may still be far, so that the longest is near the
// time of all. Clients that a loaded machine starts late are that much later.
constexpr double connecting_apart = 10, late_s = 2;
// The state of a connection is larger: shared queue pairs have 1.4 KiB of memory for each.
constexpr double least_kib_of_connection = 0.25;
constexpr std::uint64_t connections_that_show = 10;
// From as many connections on, a server whose memory grew by this many times what its connections
// have had more of it than they need.
constexpr std::uint64_t many_connections = 100;
constexpr double growth_apart = 3;
// A process needs some time for each switch to it.
constexpr double many_switches = 1000, least_ns_of_switch = 200;
// --stagger: a client waits for its number, modulo this, times the pause. So in a process of ten
// clients one begins nine pauses after another. With fewer than 100 processes a thousand clients
// have such a process.
constexpr std::uint64_t stagger_cycle = 10, processes_most = 100;

// Whether two values of a cell are the same; a value that came from CSV is a text.
bool same(const Json& a, const Json& b, const std::string& name) {
	if (const auto one = number_of(a, name), other = number_of(b, name); one && other)
		return one->value == other->value;
	return word_of(a, name) == word_of(b, name);
}

void examine_cell(const Json& row, const Json& repetition, Findings& findings) {
	const Json &cell = repetition.at("cell"), columns = columns_of(Cell{});
	for (const auto& [name, value] : columns.items()) {
		static_cast<void>(cell.at(name));
		if (!same(row, cell, name))
			findings.invalid(fmt::format("its {} was '{}'", name, bench::text_of(cell.at(name))));
	}
}

// Examines a sum of times against the histogram of the same times.
void examine_times(
	const Json& repetition, const bench::Latency& names, const char* sum_ns, std::uint64_t count, Findings& findings) {
	const auto sum = static_cast<double>(count_in(repetition, sum_ns));
	const auto histogram = bench::examine_latency(repetition, names, findings);
	const auto max = number_of(repetition, std::string(names.prefix) + "max_ms");
	if (max && sum > max->value * 1e6 * static_cast<double>(count) * (1 + rounding))
		findings.invalid(fmt::format("{} is more than {} times of {} ms at most", sum_ns, count, max->value));
	if (count > 0) bench::examine_mean(repetition, sum / static_cast<double>(count) / names.unit_ns, names, findings);
	if (!histogram) return;
	if (histogram->count() != count)
		findings.invalid(fmt::format("{} has {} times of {}", names.histogram, histogram->count(), count));
	const double most = bench::mean_of(*histogram) * static_cast<double>(count);
	if (sum > most * (1 + rounding) || sum < most / (1 + Histogram::bucket_width) * (1 - rounding))
		findings.invalid(fmt::format("{} is not the sum of its histogram", sum_ns));
}

// The time in which all clients connected, beside that of each and the pauses before them.
void examine_connecting(const Json& row, const Json& repetition, Findings& findings) {
	const auto connected = count_in(repetition, "connected");
	const double took_s = static_cast<double>(count_in(repetition, "connecting_ns")) / 1e9,
				 stagger_s = bench::value_in(row, "stagger_ms") / 1e3,
				 longest_s = bench::value_in(repetition, "connect_max_ms") / 1e3;
	if (connected == 0) return;
	bench::examine_answers(repetition, connect_times,
		static_cast<double>(count_in(repetition, "connect_sum_ns")) / static_cast<double>(connected), "connections",
		findings);
	if (connected == clients_of(repetition) && connected >= stagger_cycle * processes_most &&
		took_s < (stagger_cycle - 1) * stagger_s)
		findings.invalid(fmt::format(
			"all clients connected in {} s, but some paused for {} s before", took_s, (stagger_cycle - 1) * stagger_s));
	const double most_s = connecting_apart * longest_s + stagger_cycle * stagger_s + late_s;
	if (took_s > most_s)
		findings.suspect(fmt::format("the clients connected in {} s, but none took longer than {} s",
			bench::three_digits(took_s), bench::three_digits(longest_s)));
}

void examine_clients(const Json& row, const Json& repetition, Findings& findings) {
	const std::uint64_t clients = clients_of(repetition), good = count_in(repetition, "good"),
						connected = count_in(repetition, "connected"),
						connecting = count_in(repetition, "connecting_ns");
	if (const auto wanted = number_of(row, "clients"); wanted && static_cast<double>(clients) != wanted->value)
		findings.invalid(fmt::format("{} clients succeeded or failed", clients));
	if (connected > clients || good > connected)
		findings.invalid(fmt::format("{} clients connected, and {} succeeded", connected, good));
	examine_times(repetition, connect_times, "connect_sum_ns", connected, findings);
	// The time from the first SYN to the last client that is ready includes each client's own.
	const auto longest = number_of(repetition, "connect_max_ms");
	if (connected > 0 && longest && longest->value * 1e6 > static_cast<double>(connecting) * (1 + rounding))
		findings.invalid(fmt::format("a client connected in {} ms, but all of them in {} ms", longest->value,
			static_cast<double>(connecting) / 1e6));
	examine_connecting(row, repetition, findings);
	if (good == clients) return;
	std::string causes_text;
	for (std::size_t cause = 1; cause < causes; ++cause)
		if (const auto failed = count_in(repetition, column_of(static_cast<Cause>(cause))); failed > 0)
			causes_text += fmt::format(", {} {}", failed, name_of(static_cast<Cause>(cause)));
	findings.suspect(fmt::format("{} of {} clients succeeded{}", good, clients, causes_text));
}

void examine_memory(const Json& repetition, Findings& findings) {
	const std::uint64_t before = count_in(repetition, "resident_before"),
						connected = count_in(repetition, "resident_connected"),
						peak = count_in(repetition, "resident_peak");
	if (before == 0 || connected == 0) findings.invalid("a server without memory");
	if (static_cast<double>(std::max(before, connected)) > resident_tolerance * static_cast<double>(peak))
		findings.invalid(
			fmt::format("the server had {} and then {} B of memory, but {} B at its peak", before, connected, peak));
}

void examine_threads(const Json& row, const Json& repetition, Findings& findings) {
	// One thread sets up connections; the channels have one more, or one for each client.
	const std::uint64_t least =
		1 + (word_of(row, "engine") == name_of(Engine::threads) ? count_in(repetition, "connected") : 1);
	if (const auto threads = count_in(repetition, "threads"); threads < least)
		findings.invalid(fmt::format("the server had {} threads, but needs {}", threads, least));
}

void examine_queue_pairs(const Json& row, const Json& repetition, bool all_good, Findings& findings) {
	const std::uint64_t had = count_in(repetition, "queue_pairs"), peak = count_in(repetition, "peak_clients");
	const auto shared = number_of(row, "shared_qps");
	const bool rdma = word_of(row, "transport") == name_of(Transport::rdma), logical = shared && shared->value > 0;
	if (logical && all_good && count_in(repetition, "distinct_ids") != clients_of(repetition))
		findings.invalid(fmt::format("the server counted {} different logical clients instead of {}",
			count_in(repetition, "distinct_ids"), clients_of(repetition)));
	if (!logical && !repetition.at("distinct_ids").is_null()) findings.invalid("no client was a logical one");
	if (const auto most = number_of(repetition, "queue_pairs_max");
		rdma && most && static_cast<double>(had) > most->value)
		findings.invalid(fmt::format("the server had {} queue pairs, but its device has {}", had, most->value));
	if (!rdma) {
		if (had > 0 || !repetition.at("send_posts").is_null()) findings.invalid("TCP has no queue pairs");
	} else if (logical && static_cast<double>(had) > shared->value) {
		findings.invalid(
			fmt::format("the server had {} queue pairs, but only {} were to be shared", had, shared->value));
	} else if (!logical && had != peak) {
		findings.invalid(fmt::format("the server had {} queue pairs for {} clients", had, peak));
	}
}

void examine_server(const Json& row, const Json& repetition, Findings& findings) {
	if (!has_server(repetition)) return findings.remark("the server's counts are not known");
	const std::uint64_t clients = clients_of(repetition), connected = count_in(repetition, "connected"),
						echoes = count_in(repetition, "echoes"), echoed = count_in(repetition, "server_echoes"),
						peak = count_in(repetition, "peak_clients");
	const bool all_good = count_in(repetition, "good") == clients;
	// The server may or may not have counted a client that broke off, so compare exactly only if
	// all clients succeeded.
	if (peak < connected || (all_good && peak > clients))
		findings.invalid(fmt::format("the server had {} clients at once, but {} had connected", peak, connected));
	if (all_good ? echoed != echoes : echoed < echoes)
		findings.invalid(fmt::format("the server counted {} echoes, but the clients verified {}", echoed, echoes));
	examine_queue_pairs(row, repetition, all_good, findings);
	examine_memory(repetition, findings);
	examine_threads(row, repetition, findings);
}

void examine_redis(const Json& row, const Json& repetition, Findings& findings) {
	const double rate = bench::number_in(repetition, "requests_per_s"),
				 took_s = static_cast<double>(count_in(repetition, "elapsed_ns")) / 1e9;
	const auto requests = static_cast<double>(count_in(repetition, "requests"));
	// redis-benchmark counts a request more or less at its end.
	if (rate * took_s * 1.01 < requests)
		findings.invalid(fmt::format("{} requests in {} s are more than {} a second", requests,
			bench::three_digits(took_s), bench::three_digits(rate)));
	const auto mean = number_of(repetition, "avg_latency_ms");
	bench::examine_little(rate, mean ? mean->value / 1e3 : 0,
		{.what = "requests", .most = number_of(row, "clients").value_or(bench::Number{}).value, .only_waits = true},
		findings);
	if (mean) bench::examine_answers(repetition, echo_times, mean->value * 1e6, "requests", findings);
	const auto p50 = number_of(repetition, "latency_p50_ms"), max = number_of(repetition, "latency_max_ms");
	if (mean && max && mean->value > max->value) findings.invalid("the mean latency is above the longest");
	// At least half of the latencies are at least the median.
	if (mean && p50 && mean->value < p50->value / 2.1) findings.invalid("the mean latency is below half of p50");
	bench::examine_percentiles(repetition, echo_times, findings);
}

void examine_words(const Json& row, Findings& findings) {
	const bool redis = word_of(row, "system") == "redis";
	if (bench::has_value(row, "repetitions"))
		for (const char* column : {"system", "transport", "connect", "server", redis ? "system" : "engine"})
			if (!bench::has_value(row, column)) findings.invalid(fmt::format("there is no {}", column));
	bench::examine_word(row, "system", {"verbena", "redis"}, findings);
	bench::examine_word(row, "transport", {"rdma", "tcp"}, findings);
	bench::examine_word(row, "connect", {"tls-psn", "rdmacm", "clear", "rdmacm-clear"}, findings);
	if (!redis) bench::examine_word(row, "engine", {"epoll", "uring", "threads"}, findings);
	bench::examine_word(row, "without", {"coalescing", "pooling", "batched polling"}, findings);
	bench::examine_word(row, "server", {"own", "elsewhere"}, findings);
	if (const auto clients = number_of(row, "clients"); !clients || clients->value < 1)
		findings.invalid("clients is not 1 or more");
	const bool tcp = word_of(row, "transport") == name_of(Transport::tcp);
	if (tcp && word_of(row, "connect").starts_with(name_of(ConnectBy::rdmacm)))
		findings.invalid(std::string(tcp_by_rdmacm));
	if (redis && (!tcp || word_of(row, "connect") != "clear" || bench::has_value(row, "engine")))
		findings.invalid("redis has TCP connections in clear, and none of our engines");
	const auto shared = number_of(row, "shared_qps");
	if (word_of(row, "engine") == name_of(Engine::threads) && shared && shared->value > 0)
		findings.invalid("a server with a thread for each client has no logical clients");
}

// A row whose server is our own has its counts in every repetition.
void examine_account(const Json& row, Findings& findings) {
	if (!bench::has_value(row, "repetitions") || word_of(row, "system") == "redis") return;
	const bool own = word_of(row, "server") == "own";
	for (const Json& each : row["repetitions"])
		if (!has_failed(each) && has_server(each) != own)
			return findings.invalid(own ? "its own server reported no counts" : "a server elsewhere reports no counts");
}

// Numbers that a published row has too.
void examine_figures(const Json& row, Findings& findings) {
	const auto success = number_of(row, "success_percent"), rate = number_of(row, "messages_per_second"),
			   latency = number_of(row, "avg_latency_ms");
	if (success && success->value > 100) findings.invalid(fmt::format("{} % of the clients succeeded", success->value));
	if (!rate || !latency || bench::has_value(row, "repetitions")) return;
	const double most = number_of(row, "clients").value_or(bench::Number{}).value;
	bench::examine_little(rate->value, latency->value / 1e3, {.what = "messages", .most = most}, findings);
}

// A switch to a process takes some of its time.
void examine_switches(const Json& repetition, Findings& findings) {
	for (const auto& [time, switches] :
		{std::pair("clients_cpu_ns", "clients_switches"), std::pair("server_cpu_ns", "server_switches")}) {
		const auto used = number_of(repetition, time), count = number_of(repetition, switches);
		if (used && count && count->value >= many_switches && used->value < least_ns_of_switch * count->value)
			findings.invalid(fmt::format("{} is {} ns, but {} is {}", time, used->value, switches, count->value));
	}
}

// The processor times that the repetitions have. The server's is not known if it is elsewhere.
void examine_processor_times(const Json& row, const bench::Table& table, Findings& findings) {
	if (!bench::has_value(row, "repetitions") || word_of(row, "system") == "redis") return;
	for (const Json& each : row["repetitions"]) {
		// Without a duration no time was taken.
		if (has_failed(each) || count_in(each, "window_ns") == 0) continue;
		const auto clients = number_of(each, "clients_cpu_ns"), server = number_of(each, "server_cpu_ns");
		bench::ProcessorTime time{.used_s = 0,
			.elapsed_s = static_cast<double>(count_in(each, "window_ns")) / 1e9,
			.operations = count_in(each, "counted")};
		for (const auto& part : {clients, server}) {
			if (!part) continue;
			time.used_s = part->value / 1e9;
			bench::examine_processor_time(table.environment, time, findings);
		}
		if (!clients || !server) continue;
		time.used_s = (clients->value + server->value) / 1e9;
		bench::examine_processor_time(table.environment, time, findings);
	}
	// That of a server without traffic.
	for (const Json& each : row["repetitions"])
		if (const auto idle = number_of(each, "idle_ns"), used = number_of(each, "idle_cpu_ns"); idle && used)
			bench::examine_processor_time(
				table.environment, {.used_s = used->value / 1e9, .elapsed_s = idle->value / 1e9}, findings);
}

// No memory is larger than that of the machine, if the environment says it.
void examine_memory_of_machine(const Json& row, const bench::Table& table, Findings& findings) {
	const auto stated = bench::stated_number(table.environment, "memory_bytes");
	if (!stated || !bench::has_value(row, "repetitions")) return;
	for (const Json& each : row["repetitions"])
		for (const char* name :
			{"resident_before", "resident_connected", "resident_peak", "kernel_before", "kernel_connected"})
			if (const auto bytes = number_of(each, name); bytes && bytes->value > stated->value)
				findings.invalid(
					fmt::format("{} is {} B, but the machine has {} B", name, bytes->value, stated->value));
}

// A connection has memory of its own. That of few connections may be pages that the server had.
void examine_memory_of_connections(const Json& row, Findings& findings) {
	if (!bench::has_value(row, "repetitions") || word_of(row, "system") == "redis") return;
	for (const Json& each : row["repetitions"]) {
		if (has_failed(each)) continue;
		const auto kib = kib_per_connection(each, "resident_connected");
		if (const auto connected = count_in(each, "connected");
			kib && connected >= connections_that_show && *kib < least_kib_of_connection)
			findings.suspect(fmt::format("{} KiB of memory for each of {} connections are next to nothing",
				bench::three_digits(*kib), connected));
		if (!has_server(each)) continue;
		const auto bytes = [&](const char* name) { return static_cast<double>(count_in(each, name)); };
		const double before = bytes("resident_before"), growth = bytes("resident_connected") - before;
		if (count_in(each, "connected") >= many_connections && bytes("resident_peak") - before > growth_apart * growth)
			findings.suspect(
				fmt::format("the server's memory grew by {:.0f} B, but by {:.0f} B while its clients connected",
					bytes("resident_peak") - before, growth));
	}
}

}  // namespace

void examine_repetition(const Json& row, const Json& repetition, Findings& findings) {
	if (has_failed(repetition)) return findings.invalid(repetition["failure"].get<std::string>());
	examine_cell(row, repetition, findings);
	if (word_of(row, "system") == "redis") return examine_redis(row, repetition, findings);
	examine_clients(row, repetition, findings);
	examine_server(row, repetition, findings);
	examine_switches(repetition, findings);
	examine_times(repetition, echo_times, "latency_sum_ns", count_in(repetition, "latencies"), findings);
	examine_traffic(row, repetition, findings);
}

void examine_row(const Json& row, const bench::Table& table, Findings& findings) {
	examine_words(row, findings);
	examine_account(row, findings);
	examine_figures(row, findings);
	bench::examine_percentiles(row, connect_times, findings);
	bench::examine_percentiles(row, echo_times, findings);
	examine_link(row, table, findings);
	examine_processor_times(row, table, findings);
	examine_memory_of_machine(row, table, findings);
	examine_memory_of_connections(row, findings);
}

}  // namespace verbena::scale

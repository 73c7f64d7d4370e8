// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/connect/latencies.h"
#include "bench/judge/judge.h"

namespace verbena::connect {
namespace {

using bench::count_in;
using bench::Findings;
using bench::Json;
using bench::number_of;
using bench::word_of;

// Shares of the connects that may be under way, on average. At the end of a run fewer and fewer
// are: if there are no more connects than clients, it is half of them.
constexpr double few = 0.3, next_to_none = 0.1;
// A client may be off its processor for a large part of a shorter time.
constexpr double long_s = 1;
double rate(const Json& repetition, const char* elapsed) {
	const auto ns = static_cast<double>(count_in(repetition, elapsed));
	return ns == 0 ? 0 : static_cast<double>(count_in(repetition, "count")) * 1e9 / ns;
}

void examine_rate(const Json& repetition, const char* name, double from_counts, Findings& findings) {
	const double claimed = bench::number_in(repetition, name);
	if (std::abs(claimed - from_counts) > 1e-9 * from_counts)
		findings.invalid(fmt::format("{} is {}, but count and elapsed time give {}", name, bench::three_digits(claimed),
			bench::three_digits(from_counts)));
}

// Compares the rate and the mean latency of one half, connects or disconnects.
void examine_under_way(const Json& row, const Json& repetition, std::string_view what, double rate_per_s,
	double mean_ns, Findings& findings) {
	const auto clients = number_of(row, "clients");
	if (!clients || rate_per_s == 0 || mean_ns == 0) return;
	bench::examine_little(rate_per_s, mean_ns / 1e9, {.what = what, .most = clients->value}, findings);
	const double may = std::min(clients->value, static_cast<double>(count_in(repetition, "count")));
	const double share = rate_per_s * mean_ns / 1e9 / may;
	if (share >= few) return;
	const std::string text = fmt::format("{} {} under way on average, but {:.0f} clients begin the next one at once",
		bench::three_digits(share * may), what, clients->value);
	const double elapsed_s = static_cast<double>(count_in(repetition, "count")) / rate_per_s;
	if (share < next_to_none && elapsed_s >= long_s) findings.invalid(text);
	else findings.suspect(text);
}

// Returns the mean in nanoseconds; 0 if there is no histogram.
double examine_values(const Json& repetition, const bench::Latency& names, const char* elapsed, Findings& findings) {
	const auto latency = bench::examine_latency(repetition, names, findings);
	if (!latency) return 0;
	const std::uint64_t count = count_in(repetition, "count");
	if (latency->count() != count)
		findings.invalid(fmt::format("{} has {} values for {} connections", names.histogram, latency->count(), count));
	if (latency->max() > count_in(repetition, elapsed))
		findings.invalid(fmt::format("a value of {} is longer than {}", names.histogram, elapsed));
	return bench::mean_of(*latency);
}

void examine_latencies(const Json& row, const Json& repetition, Findings& findings) {
	double of_total = examine_values(repetition, total, "connect_elapsed_ns", findings), of_parts = 0;
	for (const bench::Latency& part : parts)
		of_parts += examine_values(repetition, part, "connect_elapsed_ns", findings);
	if (std::abs(of_parts - of_total) > 2 * Histogram::bucket_width * of_total)
		findings.invalid(fmt::format("the parts of a connect take {} us together, but a connect takes {} us",
			bench::three_digits(of_parts / 1e3), bench::three_digits(of_total / 1e3)));
	double of_disconnect = examine_values(repetition, disconnect, "disconnect_elapsed_ns", findings);
	// Without histograms: half of the values are at least the median, so the mean is at least half
	// of it.
	const auto at_least = [&](const char* median) { return number_of(repetition, median)->value * 1e3 / 2; };
	const bool from_csv = !repetition.contains("total_ns");
	if (from_csv && number_of(repetition, "p50_us")) of_total = at_least("p50_us");
	if (from_csv && number_of(repetition, "disconnect_p50_us")) of_disconnect = at_least("disconnect_p50_us");
	examine_under_way(row, repetition, "connects", connects_per_s(repetition), of_total, findings);
	examine_under_way(row, repetition, "disconnects", disconnects_per_s(repetition), of_disconnect, findings);
}

}  // namespace

double connects_per_s(const Json& repetition) { return rate(repetition, "connect_elapsed_ns"); }
double disconnects_per_s(const Json& repetition) { return rate(repetition, "disconnect_elapsed_ns"); }

void examine_repetition(const Json& row, const Json& repetition, Findings& findings) {
	const std::uint64_t count = count_in(repetition, "count"), established = count_in(repetition, "established"),
						disconnected = count_in(repetition, "disconnected");
	const std::string failure = repetition.at("failure").get<std::string>();
	if (!failure.empty()) return findings.invalid(failure);
	for (const auto& [column, what] : {std::pair("clients", "clients"), std::pair("count", "connections")})
		if (const auto of_row = number_of(row, column);
			!of_row || of_row->value != static_cast<double>(count_in(repetition, column)))
			findings.invalid(fmt::format(
				"it has {} {}, but the row says {}", count_in(repetition, column), what, word_of(row, column)));
	if (established != count || disconnected != count)
		findings.invalid(fmt::format("the server counted {} established and {} disconnected connections of {}",
			established, disconnected, count));
	examine_rate(repetition, "connects_per_s", connects_per_s(repetition), findings);
	examine_rate(repetition, "disconnects_per_s", disconnects_per_s(repetition), findings);
	if (connects_per_s(repetition) == 0 || disconnects_per_s(repetition) == 0)
		findings.invalid("it made no connections, or took no time");
	examine_latencies(row, repetition, findings);
}

void examine_row(const Json& row, const bench::Table& table, Findings& findings) {
	if (word_of(row, "experiment") != "connect")
		findings.invalid(fmt::format("experiment '{}' is unknown", word_of(row, "experiment")));
	const std::string connect = word_of(row, "connect");
	if (connect != "rdmacm") findings.invalid(fmt::format("connect '{}' is unknown", connect));
	if (const auto of_table = bench::value_of(table.environment, "connect"); !of_table.empty() && of_table != connect)
		findings.invalid(fmt::format("connect is {}, but the environment says {}", connect, of_table));
	for (const auto& [column, most] : {std::pair("clients", clients_max), std::pair("count", count_max)})
		if (const auto value = number_of(row, column); !value || value->value < 1 || value->value > most)
			findings.invalid(fmt::format("{} is not from 1 to {:.0f}", column, most));
	for_each_latency([&](const bench::Latency& each) { bench::examine_percentiles(row, each, findings); });
}

}  // namespace verbena::connect

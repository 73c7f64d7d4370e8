// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/connect/latencies.h"
#include "bench/connect/rows.h"
#include "bench/judge/cells.h"
#include "bench/judge/judge.h"
#include "bench/judge/least_times.h"
#include "bench/judge/means.h"

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

// A mean latency, and the share by which it may be above the true one.
struct Mean {
	double ns = 0, above = 0;
};

// The exact mean if there is a sum, else that of the histogram, else the least that the percentiles
// allow.
Mean mean_latency(
	const Json& repetition, const bench::Latency& names, const char* sum, double of_histogram, Findings& findings) {
	constexpr double rounding = 1e-9;
	const double least = bench::mean_by_percentiles(repetition, names).least * names.unit_ns;
	// A repetition that names its cell has the sums; earlier versions wrote neither.
	if (!repetition.contains("cell") && !repetition.contains(sum))
		return of_histogram > 0 ? Mean{of_histogram, Histogram::bucket_width} : Mean{least, rounding};
	const double mean =
		static_cast<double>(count_in(repetition, sum)) / static_cast<double>(count_in(repetition, "count"));
	bench::examine_mean(repetition, mean / names.unit_ns, names, findings);
	bench::examine_maximum(repetition, names, findings);
	if (of_histogram > 0 &&
		(mean > of_histogram * (1 + rounding) || mean < of_histogram / (1 + Histogram::bucket_width) * (1 - rounding)))
		findings.invalid(fmt::format("{} is not the sum of its histogram", sum));
	return {mean, rounding};
}

// Compares the rate and the mean latency of one half, connects or disconnects.
void examine_under_way(const Json& row, const Json& repetition, std::string_view what, double rate_per_s,
	const Mean& mean, Findings& findings) {
	const auto clients = number_of(row, "clients");
	if (!clients || rate_per_s == 0 || mean.ns == 0) return;
	bench::examine_little(
		rate_per_s, mean.ns / 1e9, {.what = what, .most = clients->value, .tolerance = 1 + mean.above}, findings);
	const double may = std::min(clients->value, static_cast<double>(count_in(repetition, "count")));
	const double share = rate_per_s * mean.ns / 1e9 / may;
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
	if (const auto longest = number_of(repetition, std::string(names.prefix) + "max_us");
		longest && longest->value * names.unit_ns > static_cast<double>(count_in(repetition, elapsed)) * (1 + 1e-9))
		findings.invalid(fmt::format("{}max_us {} is longer than {}", names.prefix, longest->value, elapsed));
	if (!latency) return 0;
	const std::uint64_t count = count_in(repetition, "count");
	if (latency->count() != count)
		findings.invalid(fmt::format("{} has {} values for {} connections", names.histogram, latency->count(), count));
	return bench::mean_of(*latency);
}

void examine_latencies(const Json& row, const Json& repetition, Findings& findings) {
	const double of_total = examine_values(repetition, total, "connect_elapsed_ns", findings);
	// A part takes no longer than the whole.
	for (const bench::Latency& part : parts)
		for (const char* each : {"p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us"}) {
			const auto of_part = number_of(repetition, std::string(part.prefix) + each),
					   of_whole = number_of(repetition, std::string(total.prefix) + each);
			if (of_part && of_whole && of_part->value > of_whole->value * (1 + Histogram::bucket_width))
				findings.invalid(fmt::format("{}{} is above {}", part.prefix, each, each));
		}
	double of_parts = 0;
	for (const bench::Latency& part : parts)
		of_parts += examine_values(repetition, part, "connect_elapsed_ns", findings);
	if (std::abs(of_parts - of_total) > 2 * Histogram::bucket_width * of_total)
		findings.invalid(fmt::format("the parts of a connect take {} us together, but a connect takes {} us",
			bench::three_digits(of_parts / 1e3), bench::three_digits(of_total / 1e3)));
	const double of_disconnect = examine_values(repetition, disconnect, "disconnect_elapsed_ns", findings);
	if (count_in(repetition, "count") == 0) return;
	const auto examine = [&](const char* what, const bench::Latency& names, double rate_per_s, const Mean& mean) {
		bench::examine_answers(repetition, names, mean.ns, what, findings);
		examine_under_way(row, repetition, what, rate_per_s, mean, findings);
	};
	examine("connects", total, connects_per_s(repetition),
		mean_latency(repetition, total, "total_sum_ns", of_total, findings));
	examine("disconnects", disconnect, disconnects_per_s(repetition),
		mean_latency(repetition, disconnect, "disconnect_sum_ns", of_disconnect, findings));
}

}  // namespace

double connects_per_s(const Json& repetition) { return rate(repetition, "connect_elapsed_ns"); }
double disconnects_per_s(const Json& repetition) { return rate(repetition, "disconnect_elapsed_ns"); }

void examine_repetition(const Json& row, const Json& repetition, Findings& findings) {
	const std::uint64_t count = count_in(repetition, "count"), established = count_in(repetition, "established"),
						disconnected = count_in(repetition, "disconnected");
	const std::string failure = repetition.at("failure").get<std::string>();
	bench::examine_cell_name(repetition, title(row), findings);
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

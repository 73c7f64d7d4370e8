// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/sample_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "bench/judge/judge.h"
#include "bench/judge/least_times.h"
#include "bench/judge/means.h"
#include "bench/judge/repetitions.h"
#include "bench/rcud/repetition.h"

namespace verbena::rcud {
namespace {

using bench::count_in;
using bench::Findings;
using bench::Json;
using bench::number_of;
using bench::value_in;
using bench::word_of;

// From 100 latencies on, the longest tenth is cut to the length of the others; of fewer, the
// longest half is left out. Those may be of messages that were under way while a process was off
// its processor, and samples say little of such times.
constexpr std::uint64_t many_latencies = 100;
constexpr double uncut = 0.9, kept_of_few = 0.5;
// The instructions that take a sample make its own message slower, by up to a quarter of a message.
// The more messages are under way, the less this is beside their latency.
double tolerance_of_many(double window) { return std::max(1.05, 1 + 0.25 / window); }
// The share of the window that must be under way on average, with all latencies. While the sender
// is off its processor its messages are under way, and most such times are in a sample.
constexpr double next_to_none = 0.02;

// The sum of the latencies, cut as above, over the number of all, in seconds: at most the mean of
// all, however long the others are.
double cut_mean_of(const Histogram& latency) {
	if (latency.count() == 0) return 0;
	const auto count = static_cast<double>(latency.count());
	const bool many = latency.count() >= many_latencies;
	auto left = static_cast<std::uint64_t>((many ? uncut : kept_of_few) * count);
	const std::uint64_t cut = latency.count() - left;
	double sum = 0, longest = 0;
	latency.for_each([&](std::uint64_t last, std::uint64_t times) {
		const std::uint64_t taken = std::min(left, times);
		if (taken > 0) longest = static_cast<double>(std::min(last, latency.max()));
		sum += longest * static_cast<double>(taken);
		left -= taken;
	});
	if (many) sum += longest * static_cast<double>(cut);
	return sum / count / 1e9;
}

// Half of the latencies are at least the median, so their mean is at least half of it.
double mean_by_median(const Json& repetition) { return value_in(repetition, "p50_us") / 2e6; }

// The rate of the law is the sender's, as the latencies are.
void examine_under_way(
	const Json& row, const Json& repetition, double mean_latency_s, std::uint64_t latencies, Findings& findings) {
	const auto took = static_cast<double>(count_in(repetition, "sender_ns"));
	const auto window = number_of(row, "window");
	if (took == 0 || !window || mean_latency_s == 0) return;
	const double rate = static_cast<double>(count_in(repetition, "posted")) * 1e9 / took;
	const bool many = latencies >= many_latencies;
	bench::examine_little(rate, mean_latency_s,
		{.what = "messages",
			.most = window->value,
			.tolerance = many ? tolerance_of_many(window->value) : bench::little_tolerance},
		findings);
}

// With a local window the sender of WRITEs may also wait for room at the receiver, where nothing is
// under way by its own completions.
void examine_idleness(const Json& row, const Json& repetition, double mean_latency_s, Findings& findings) {
	if (word_of(row, "window_mode") != "credit" && word_of(row, "op") == "write") return;
	const auto took = static_cast<double>(count_in(repetition, "sender_ns"));
	const auto window = number_of(row, "window");
	if (took == 0 || !window || mean_latency_s == 0) return;
	const double under_way = static_cast<double>(count_in(repetition, "posted")) * 1e9 / took * mean_latency_s;
	if (under_way >= next_to_none * window->value && under_way >= bench::little_minimum) return;
	const std::string text = fmt::format("rate and latency give {} messages under way on average, but the window is {}",
		bench::three_digits(under_way), window->value);
	if (under_way < bench::little_minimum && word_of(row, "window_mode") == "credit") findings.invalid(text);
	else findings.suspect(text);
}

// The number of latencies that were taken; empty if the table has it nowhere.
std::optional<std::uint64_t> latencies_of(const Json& repetition) {
	// A repetition that names its cell has it; earlier versions wrote neither.
	if (repetition.contains("cell") || repetition.contains("latencies")) return count_in(repetition, "latencies");
	if (!repetition.contains("latency_ns")) return {};
	return count_in(repetition["latency_ns"], "count");
}

// A credit, and the completion of a SEND over RC, are answers of the receiver. UD completes alone,
// and so do WRITEs and READs in memory that the sender maps.
bool is_answered(const Json& row) {
	return word_of(row, "window_mode") == "credit" || (word_of(row, "mode") == "RC" && word_of(row, "op") == "send");
}

void examine_least_times(const Json& row, const Json& repetition, const std::optional<Histogram>& latency,
	std::uint64_t latencies, Findings& findings) {
	// Earlier versions did not write how many latencies were taken.
	if (latencies == 0 || (!latencies_of(repetition) && !number_of(repetition, "p50_us"))) return;
	const double median_ns = value_in(repetition, "p50_us") * 1e3,
				 ns = latency ? std::max(median_ns, bench::mean_of(*latency)) : median_ns;
	if (is_answered(row)) bench::examine_answers(repetition, {}, ns, "latencies", findings);
	else bench::examine_some_time(ns, "latencies", findings);
}

// "... post-list 4, ..." in the environment's settings; 1 if they do not say it.
double post_list_of(const bench::Table& table) {
	constexpr std::string_view name = "post-list ";
	const std::string_view settings = bench::value_of(table.environment, "settings");
	unsigned list = 1;
	if (const auto at = settings.find(name); at != settings.npos)
		std::from_chars(settings.data() + at + name.size(), settings.data() + settings.size(), list);
	return std::max(1u, list);
}

// The least number of latencies. A sample begins with the first list of messages at which it is
// due, and ends with the next completion or credit, so the last one of each sender may lack.
// Messages that are lost, or still under way at an early end, keep more samples from their end.
double least_samples(const Json& row, const Json& repetition, double post_list) {
	const auto count = [&](const char* name) { return static_cast<double>(count_in(repetition, name)); };
	const double posted = count("posted"), window = value_in(row, "window");
	const double step = static_cast<double>(sample_every) - 1 + std::min(post_list, window);
	const double missing = posted - std::min(count("delivered"), count("completed"));
	const double lost =
		missing > 0 || posted < count("iters") ? (missing + window) / static_cast<double>(sample_every) + 1 : 0;
	return std::floor(posted / step) - std::max(1.0, value_in(row, "senders")) - lost;
}

}  // namespace

void examine_samples(const Json& row, const Json& repetition, Findings& findings) {
	const auto latency = bench::examine_latency(repetition, {}, findings);
	const auto longest = number_of(repetition, "max_us");
	if (longest && longest->value * 1e3 > static_cast<double>(count_in(repetition, "sender_ns")))
		findings.invalid(fmt::format("max_us {} is longer than the run", longest->value));
	const std::uint64_t posted = count_in(repetition, "posted");
	const std::uint64_t samples = posted / sample_every;
	if (latency && repetition.contains("latencies") && latency->count() != count_in(repetition, "latencies"))
		findings.invalid(
			fmt::format("{} latencies, but the histogram has {}", count_in(repetition, "latencies"), latency->count()));
	// One more of each sender.
	if (const auto taken = latencies_of(repetition);
		taken && static_cast<double>(*taken) > static_cast<double>(samples) + std::max(1.0, value_in(row, "senders")))
		findings.invalid(
			fmt::format("{} latencies of {} messages, but one in {} is taken", *taken, posted, sample_every));
	const std::uint64_t count = latency ? latency->count() : samples;
	examine_least_times(row, repetition, latency, count, findings);
	if (is_answered(row))
		bench::examine_round_trips(repetition, static_cast<double>(posted), value_in(row, "window"),
			static_cast<double>(count_in(repetition, "sender_ns")), findings);
	examine_under_way(row, repetition, latency ? cut_mean_of(*latency) : mean_by_median(repetition), count, findings);
	if (count >= many_latencies)
		examine_idleness(row, repetition,
			latency ? bench::mean_of(*latency) / 1e9 : bench::mean_by_percentiles(repetition, {}).most / 1e6, findings);
}

void examine_number_of_samples(const Json& row, const bench::Table& table, Findings& findings) {
	if (!bench::has_value(row, "repetitions")) return;
	const double post_list = post_list_of(table);
	for (const Json& each : row["repetitions"])
		if (const auto taken = latencies_of(each);
			taken && static_cast<double>(*taken) < least_samples(row, each, post_list))
			findings.invalid(fmt::format(
				"{} latencies of {} messages, but one in {} is taken", *taken, count_in(each, "posted"), sample_every));
}

}  // namespace verbena::rcud

// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/judge/judge.h"
#include "bench/judge/least_times.h"
#include "bench/judge/link.h"
#include "bench/judge/means.h"
#include "bench/judge/processor_time.h"
#include "bench/judge/repetitions.h"
#include "bench/rpc/labels.h"
#include "bench/rpc/peer.h"
#include "bench/rpc/repetition.h"

namespace verbena::rpcbench {
namespace {

using bench::count_in;
using bench::Findings;
using bench::has_value;
using bench::Json;
using bench::number_in;
using bench::number_of;
using bench::Table;
using bench::three_digits;
using bench::value_in;
using bench::word_of;

// Published rates and throughputs were counted separately.
constexpr double product_tolerance = 0.01;
// For sums and quotients of numbers that are written with all their digits.
constexpr double same = 1e-6;
// Timers of a loaded machine are late.
constexpr double seconds_late = 0.5;
// Requests of this size, of as many callers, share messages where they may; those of one caller are
// in the work requests.
constexpr double small_bytes = 128, callers_that_coalesce = 16, least_frames_of_message = 1.5, least_inline = 0.9;
// A server accepts no more connections; those of the warm-up count too.
constexpr double connections_per_s_most = 100'000, warmup_most_s = 10;
// The kernel pins whole pages.
constexpr double least_pinned_kib = 4;

double size_in(const Json& row) { return static_cast<double>(bytes_of(word_of(row, "request_size")).value_or(0)); }

void examine_mean(const Json& repetition, Findings& findings) {
	const double mean = mean_of(repetition);
	bench::examine_mean(repetition, mean, {}, findings);
	bench::examine_pace(static_cast<double>(count_in(repetition, "requests")), "requests",
		number_in(repetition, "seconds") * 1e9, findings, bench::messages_per_ns_most);
	bench::examine_answers(repetition, {}, mean * 1e3, "requests", findings);
	bench::examine_maximum(repetition, {}, findings);
	const auto latency = bench::examine_latency(repetition, {}, findings);
	if (!latency) return;
	if (latency->count() != count_in(repetition, "requests"))
		findings.invalid(
			fmt::format("{} latencies of {} requests", latency->count(), count_in(repetition, "requests")));
	if (const double most = bench::mean_of(*latency) / 1e3, least = most * (1 - Histogram::bucket_width);
		mean < least * (1 - same) || mean > most * (1 + same))
		findings.invalid(fmt::format("a mean of {} us, but the latencies give {} to {} us", three_digits(mean),
			three_digits(least), three_digits(most)));
}

void examine_under_way(const Json& row, const Json& repetition, Findings& findings) {
	const double callers = value_in(row, "concurrency"), mean_s = mean_of(repetition) / 1e6,
				 seconds = number_in(repetition, "seconds");
	// The sum of all latencies is exact.
	bench::examine_little(
		qps_of(repetition), mean_s, {.what = "requests", .most = callers, .tolerance = 1 + same}, findings);
	if (word_of(row, "ablation") == name_of(Behaviour::connection_pool) || seconds == 0) return;
	// A caller's requests at both ends of the measured time do not count; on average they take one
	// latency of it.
	const double under_way = callers * mean_s / seconds + qps_of(repetition) * mean_s;
	const std::string text =
		fmt::format("{} requests under way on average instead of {}", three_digits(under_way), callers);
	// A short run may be off its processor nearly all the time.
	if (under_way < bench::little_minimum * callers && seconds >= 1) findings.invalid(text);
	else if (under_way < callers / bench::little_tolerance)
		findings.suspect(text + ": the client was too slow, or the run too short");
}

void examine_time(const Json& row, const Json& repetition, Findings& findings) {
	const double seconds = number_in(repetition, "seconds"), asked = value_in(row, "seconds");
	if (seconds == 0 || seconds < 0.99 * asked)
		findings.invalid(fmt::format("{} s measured instead of {} s", three_digits(seconds), three_digits(asked)));
	else if (seconds > 1.5 * asked + seconds_late)
		findings.suspect(fmt::format("{} s measured instead of {} s", three_digits(seconds), three_digits(asked)));
	if (std::abs(number_in(repetition, "qps") - qps_of(repetition)) > same * qps_of(repetition))
		findings.invalid(fmt::format("qps {} is not requests / seconds", word_of(repetition, "qps")));
}

// Whether the counts show a behaviour that was on. Large requests, and those with few beside them,
// need not show it.
bool shows(std::string_view behaviour, const Json& row, const Json& repetition) {
	const auto count = [&](const char* name) { return static_cast<double>(count_in(repetition, name)); };
	const bool is_small = size_in(row) <= small_bytes;
	const double callers = value_in(row, "concurrency");
	if (behaviour == name_of(Behaviour::connection_pool)) return count("connections") <= callers;
	if (behaviour == name_of(Behaviour::pool)) return count("registrations") < count("requests") / 2;
	if (behaviour == name_of(Behaviour::coalescing) && is_small && callers >= callers_that_coalesce)
		return count("frames") > least_frames_of_message * count("messages");
	if (behaviour == name_of(Behaviour::inline_data) && is_small && callers == 1)
		return count("rdma_frames_inline") > least_inline * count("rdma_frames");
	return true;
}

// A row with a behaviour shows it, unlike the row without it.
void examine_behaviour(const Json& row, const Json& repetition, Findings& findings) {
	if (const std::string behaviour = word_of(row, "ablation"); !shows(behaviour, row, repetition))
		findings.invalid(fmt::format("{} was off in a row with it", behaviour));
}

// The transport's counts. Other systems have none.
void examine_counts(const Json& row, const Json& repetition, Findings& findings) {
	const auto count = [&](const char* name) { return count_in(repetition, name); };
	const std::uint64_t requests = count("requests"), frames = count("frames"), messages = count("messages"),
						connections = count("connections"), rdma_frames = count("rdma_frames");
	const auto never = [&](bool wrong, const std::string& text) {
		if (wrong) findings.invalid(text);
	};
	if (word_of(row, "system") != name_of(System::verbena))
		return never(frames + messages + connections + rdma_frames > 0, "another system has counts of this library");
	const bool over_rdma = word_of(row, "transport") == "rdma";
	const bool pooled = word_of(row, "ablation") == name_of(Behaviour::connection_pool);
	const std::string without = word_of(row, "without");
	const auto lacks = [&](Behaviour behaviour) { return without == name_of(behaviour); };
	never(!over_rdma && (rdma_frames > 0 || count("registrations") > 0 || count("parts_most") > 0),
		"frames over RDMA in a row over TCP");
	never(
		messages > frames || count("rdma_frames_inline") > rdma_frames, "there are fewer frames than there were sent");
	never(frames > 0 && messages == 0, fmt::format("{} frames in no message", frames));
	// Each frame of a message is that of another caller.
	never(static_cast<double>(frames) > static_cast<double>(messages) * value_in(row, "concurrency"),
		fmt::format("{} frames of {} callers in {} messages", frames, word_of(row, "concurrency"), messages));
	never(!over_rdma && number_in(repetition, "pinned_kib") > 0, "memory was pinned in a row over TCP");
	for (const char* name : {"served", "frames", "rdma_frames", "registrations", "parts_most"})
		bench::examine_pace(static_cast<double>(count(name)), name, number_in(repetition, "seconds") * 1e9, findings);
	if (const double most = connections_per_s_most * (number_in(repetition, "seconds") + warmup_most_s);
		static_cast<double>(connections) > most)
		findings.invalid(fmt::format("the server accepted {} connections", connections));
	if (!pooled) {
		never(over_rdma && number_in(repetition, "pinned_kib") < least_pinned_kib,
			"a connection over RDMA without pinned memory");
		never(over_rdma && rdma_frames < messages,
			fmt::format("{} messages, but {} frames over RDMA", messages, rdma_frames));
		never(frames < count("served"), fmt::format("{} requests in {} frames", count("served"), frames));
		never(static_cast<double>(connections) != value_in(row, "connections"),
			fmt::format("the server accepted {} connections instead of {}", connections, word_of(row, "connections")));
	}
	if (without.empty() && has_value(row, "ablation")) examine_behaviour(row, repetition, findings);
	const std::string was_on = without + " was on in a row without it";
	never(lacks(Behaviour::inline_data) && count("rdma_frames_inline") > 0, was_on);
	never(lacks(Behaviour::coalescing) && frames != messages, was_on);
	never(lacks(Behaviour::send_queue) && count("parts_most") > 1, was_on);
	never(lacks(Behaviour::pool) && count("registrations") < requests, was_on);
	never(lacks(Behaviour::connection_pool) && connections < requests, was_on);
}

void examine_words(const Json& row, Findings& findings) {
	bench::examine_word(row, "system", {"verbena", "grpc", "capnp"}, findings);
	bench::examine_word(row, "transport", {"tcp", "rdma"}, findings);
	bench::examine_word(row, "mode", {"sink", "echo"}, findings);
	bench::examine_word(row, "recv_mode", {"srq", "per_connection"}, findings);
	bench::examine_word(row, "memory", {"user", "registered"}, findings);
	if (!bytes_of(word_of(row, "request_size")))
		findings.invalid(
			fmt::format("request_size '{}' is no size such as 128B, 4K, 1M", word_of(row, "request_size")));
	for (const char* column : {"concurrency", "connections"})
		if (has_value(row, column) && value_in(row, column) < 1)
			findings.invalid(fmt::format("{} is not 1 or more", column));
	const std::string ablation = word_of(row, "ablation"), without = word_of(row, "without");
	const auto behaviour =
		std::ranges::find(all_behaviours(), ablation, [](Behaviour each) { return std::string(name_of(each)); });
	if (!ablation.empty() && behaviour == all_behaviours().end())
		findings.invalid(fmt::format("ablation '{}' is unknown", ablation));
	if (!without.empty() && without != ablation)
		findings.invalid(fmt::format("without '{}' is not the ablation '{}'", without, ablation));
}

// The words of a row of ours must all be there, and fit each other.
void examine_cell(const Json& row, Findings& findings) {
	for (const char* column : {"system", "transport", "mode", "connections", "seconds"})
		if (!has_value(row, column)) findings.invalid(fmt::format("there is no {}", column));
	const bool over_rdma = word_of(row, "transport") == "rdma";
	for (const char* column : {"recv_mode", "memory"})
		if (has_value(row, column) != over_rdma)
			findings.invalid(fmt::format("{} '{}' does not fit the transport", column, word_of(row, column)));
	if (value_in(row, "connections") > value_in(row, "concurrency"))
		findings.invalid("there are more connections than callers");
	if (word_of(row, "system") != name_of(System::verbena) && (over_rdma || has_value(row, "ablation")))
		findings.invalid("another system is measured over TCP alone, and as it is");
	for (const Behaviour each : all_behaviours())
		if (is_of_rdma(each) && !over_rdma && word_of(row, "ablation") == name_of(each))
			findings.invalid(fmt::format("{} exists only over RDMA", name_of(each)));
}

void examine_arithmetic(const Json& row, Findings& findings) {
	const auto gigabits = number_of(row, "gigabits_per_second"), qps = number_of(row, "qps");
	if (!gigabits || !qps || qps->value == 0) return findings.invalid("there is no rate");
	const double bits = size_in(row) * 8 / 1e9, expected = qps->value * bits;
	if (std::abs(expected - gigabits->value) >
		product_tolerance * gigabits->value + gigabits->rounding + qps->rounding * bits)
		findings.invalid(fmt::format("QPS x size is {:.2f} Gb/s, and the row says {:.2f} ({:+.1f} %)", expected,
			gigabits->value, (expected / gigabits->value - 1) * 100));
}

// A published row has no mean: Little's law gives it from the number under way and the rate.
void examine_published(const Json& row, Findings& findings) {
	const double qps = value_in(row, "qps"), concurrency = value_in(row, "concurrency");
	if (qps == 0) return;
	bench::examine_little(
		qps, bench::mean_by_percentiles(row, {}).least / 1e6, {.what = "requests", .most = concurrency}, findings);
	const auto p90 = number_of(row, "p90_us");
	const double mean_us = concurrency / qps * 1e6;
	if (p90 && p90->value + p90->rounding < mean_us)
		findings.suspect(fmt::format(
			"P90 of {:.0f} us is below the mean of {:.0f} us that follows from {:.0f} in flight at {:.0f} QPS",
			p90->value, mean_us, concurrency, qps));
}

void examine_processor_times(const Json& row, const Table& table, Findings& findings) {
	for (const Json& each : row["repetitions"])
		for (const double used_s : {number_in(each, "client_cpu_s"), number_in(each, "server_cpu_s"),
				 number_in(each, "client_cpu_s") + number_in(each, "server_cpu_s")})
			bench::examine_processor_time(table.environment,
				{.used_s = used_s, .elapsed_s = number_in(each, "seconds"), .operations = count_in(each, "requests")},
				findings);
}

}  // namespace

void examine_repetition(const Json& row, const Json& repetition, Findings& findings) {
	const auto count = [&](const char* name) { return count_in(repetition, name); };
	if (const std::string cell = repetition.at("cell").get<std::string>(); cell != title(row))
		findings.invalid(fmt::format("it is one of the cell '{}'", cell));
	if (const std::string failure = repetition.at("failure").get<std::string>(); !failure.empty())
		return findings.invalid(failure);
	const std::uint64_t requests = count("requests");
	if (requests == 0) return findings.invalid("no request was answered");
	if (count("failed") > 0) findings.invalid(fmt::format("{} requests failed or had a wrong answer", count("failed")));
	if (count("served") < requests)
		findings.invalid(fmt::format("{} answers, but the server served only {} requests", requests, count("served")));
	if (static_cast<double>(count("callers")) != value_in(row, "concurrency"))
		findings.invalid(fmt::format("{} callers instead of {}", count("callers"), word_of(row, "concurrency")));
	if (const double bytes = static_cast<double>(requests) * size_in(row);
		std::abs(static_cast<double>(count("payload_bytes")) - bytes) > 1e-12 * bytes)
		findings.invalid(fmt::format("{} payload bytes are not {} requests of {}", count("payload_bytes"), requests,
			word_of(row, "request_size")));
	examine_time(row, repetition, findings);
	examine_mean(repetition, findings);
	examine_under_way(row, repetition, findings);
	examine_counts(row, repetition, findings);
}

void examine_row(const Json& row, const Table& table, Findings& findings) {
	examine_words(row, findings);
	examine_arithmetic(row, findings);
	bench::examine_percentiles(row, {}, findings);
	bench::examine_link(
		table.environment, word_of(row, "transport") == "rdma" ? value_in(row, "gigabits_per_second") : 0, findings);
	if (!has_value(row, "repetitions")) return examine_published(row, findings);
	examine_cell(row, findings);
	examine_processor_times(row, table, findings);
}

void examine_table(const Table& table, std::span<Findings> findings) {
	for (std::size_t i = 0; i < table.rows.size(); ++i)
		if (const Json& row = table.rows[i]; row.contains("repetitions") && row["repetitions"].empty())
			findings[i].invalid("every cell can be measured, but this one has no repetitions");
}

}  // namespace verbena::rpcbench

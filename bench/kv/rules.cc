// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/judge/judge.h"
#include "bench/judge/least_times.h"
#include "bench/judge/link.h"
#include "bench/judge/means.h"
#include "bench/judge/repetitions.h"
#include "bench/kv/repetition.h"
#include "bench/kv/rows.h"
#include "lib/kv/wire.h"

namespace verbena::kvbench {
namespace {

using bench::count_in;
using bench::Findings;
using bench::Json;
using bench::number_of;
using bench::Table;
using bench::three_digits;
using bench::value_in;
using bench::word_of;

constexpr double spread_max = 0.5;
constexpr std::uint64_t operations_min = 100;
// A process can be off its processor for the most of a shorter run.
constexpr std::uint64_t long_run_ns = 250'000'000;
constexpr double same = 1e-9;
// The shares of its lanes that a client has under way on average: less needs an explanation, and
// next to none cannot be.
constexpr double few_under_way = 0.4, next_to_none = 0.2;
// Messages that no operation needs: a rendezvous has four, and credits some more.
constexpr double messages_most = 100;
// The keys of this benchmark are shorter.
constexpr double key_bytes_max = 64;
// A run looks at the clock when an operation ends, on a machine that may be loaded.
constexpr double late_factor = 1.5, late_s = 0.5;

// Operations that may be under way at once.
double lanes_of(const Json& row) { return value_in(row, "window") * value_in(row, "clients"); }

void examine_extent(const Json& row, const Json& repetition, Findings& findings) {
	const std::uint64_t operations = count_in(repetition, "operations"), elapsed = count_in(repetition, "elapsed_ns");
	const double count = static_cast<double>(operations), iters = value_in(row, "iters");
	if (repetition.at("cell") != cell_name(row)) findings.invalid("it is one of another cell");
	if (count > iters) findings.invalid(fmt::format("{} operations of {}", operations, iters));
	if (count < iters && static_cast<double>(elapsed) < value_in(row, "seconds_max") * 1e9)
		findings.invalid(fmt::format("it ended after {} of {} operations, before its {} s were over", operations, iters,
			word_of(row, "seconds_max")));
	if (const double most_s = value_in(row, "seconds_max"), took_s = static_cast<double>(elapsed) / 1e9;
		took_s > late_factor * most_s + late_s)
		findings.suspect(fmt::format("it took {} s, and should have ended after {} s", three_digits(took_s), most_s));
	if (const double warmup = value_in(row, "warmup"); static_cast<double>(count_in(repetition, "warmup")) != warmup)
		findings.invalid(fmt::format("{} operations of the warm-up, not {}", count_in(repetition, "warmup"), warmup));
	const double bytes = count * value_in(row, "value_bytes");
	if (std::abs(static_cast<double>(count_in(repetition, "payload_bytes")) - bytes) > 1e-12 * bytes)
		findings.invalid(fmt::format("{} payload bytes are not {} values of {} B",
			count_in(repetition, "payload_bytes"), operations, word_of(row, "value_bytes")));
	if (operations > 0 && elapsed == 0) findings.invalid("the operations took no time");
	const double rate = per_second(repetition);
	if (std::abs(bench::number_in(repetition, "operations_per_second") - rate) > same * rate)
		findings.invalid(fmt::format(
			"operations_per_second {} is not operations / elapsed_ns", repetition["operations_per_second"].dump()));
	if (operations < operations_min) findings.suspect(fmt::format("only {} operations were timed", operations));
}

// The sum of all latencies is exact, so it can be compared with the histogram and with the time.
void examine_latencies(const Json& repetition, Findings& findings) {
	const std::uint64_t operations = count_in(repetition, "operations"), elapsed = count_in(repetition, "elapsed_ns");
	const auto sum = static_cast<double>(count_in(repetition, "latency_sum_ns"));
	const auto latency = bench::examine_latency(repetition, {}, findings);
	if (latency && latency->count() != operations)
		findings.invalid(fmt::format("{} latencies of {} operations", latency->count(), operations));
	if (latency) {
		const double most = bench::mean_of(*latency) * static_cast<double>(latency->count());
		if (sum > most * (1 + same) || sum < most / (1 + Histogram::bucket_width) * (1 - same))
			findings.invalid(fmt::format("the latencies add up to {} us, and those of the histogram to {} us",
				three_digits(sum / 1e3), three_digits(most / 1e3)));
	}
	if (operations > 0) {
		bench::examine_mean(repetition, sum / static_cast<double>(operations) / 1e3, {}, findings);
		bench::examine_maximum(repetition, {}, findings);
	}
	if (const auto longest = number_of(repetition, "max_us");
		longest && longest->value * 1e3 > static_cast<double>(elapsed) * (1 + same))
		findings.invalid(fmt::format("max_us {} is longer than the run", longest->value));
}

// A GET that the client reads from the server's memory is no answer.
void examine_least_times(const Json& repetition, Findings& findings) {
	const auto count = static_cast<double>(count_in(repetition, "operations")),
			   elapsed = static_cast<double>(count_in(repetition, "elapsed_ns")),
			   mean_ns = static_cast<double>(count_in(repetition, "latency_sum_ns")) / std::max(1.0, count);
	if (count == 0) return;
	if (repetition.contains("one_sided") && count_in(repetition, "one_sided") > 0)
		bench::examine_some_time(mean_ns, "operations", findings);
	else bench::examine_answers(repetition, {}, mean_ns, "operations", findings);
	bench::examine_pace(count, "operations", elapsed, findings, bench::messages_per_ns_most);
	bench::examine_pace(static_cast<double>(count_in(repetition, "payload_bytes")), "bytes", elapsed, findings,
		bench::bytes_per_ns_most);
}

// Each lane of the closed loop has one operation after the other under way.
void examine_under_way(const Json& row, const Json& repetition, Findings& findings) {
	const auto count = static_cast<double>(count_in(repetition, "operations"));
	const double lanes = lanes_of(row), window = value_in(row, "window"), clients = value_in(row, "clients");
	const auto elapsed = static_cast<double>(count_in(repetition, "elapsed_ns"));
	const auto sum = static_cast<double>(count_in(repetition, "latency_sum_ns"));
	if (count == 0 || elapsed == 0) return;
	if (sum > lanes * elapsed * (1 + same))
		findings.invalid(
			fmt::format("{} operations under way on average, of {} at most", three_digits(sum / elapsed), lanes));
	const double share = sum / elapsed / std::min(lanes, count);
	if (const std::string text = fmt::format("rate and latency give {} operations under way on average of {}",
			three_digits(sum / elapsed), std::min(lanes, count));
		share < next_to_none && elapsed >= long_run_ns)
		findings.invalid(text + ", next to none");
	else if (share < few_under_way)
		findings.suspect(
			text + (elapsed < long_run_ns ? ": the run was too short" : ", few for clients that only wait"));
	// All lanes begin before the first operation is done, so with work for all of them the window
	// was full and every client had a part.
	const bool for_all = count >= lanes;
	const auto depth = static_cast<double>(count_in(repetition, "depth_max")),
			   active = static_cast<double>(count_in(repetition, "clients"));
	if (depth > window || (for_all && depth < window))
		findings.invalid(
			fmt::format("{} operations of a client were under way at once, but the window is {}", depth, window));
	if (active > clients || (for_all && active < clients))
		findings.invalid(fmt::format("{} clients did something, not {}", active, clients));
}

// Values that fit into a message of eager_max with their key go by message, and others by
// rendezvous where there is RDMA.
void examine_choice(const Json& row, std::uint64_t direct, std::uint64_t operations, Findings& findings) {
	const auto size = number_of(row, "value_bytes"), most = number_of(row, "eager_max");
	if (!size || !most || word_of(row, "transport") != "rdma") return;
	const bool fits = size->value + key_bytes_max < most->value, exceeds = size->value >= most->value;
	if ((fits && direct > 0) || (exceeds && direct < operations))
		findings.invalid(fmt::format("{} of {} values of {} B by rendezvous, but eager_max is {}", direct, operations,
			word_of(row, "value_bytes"), word_of(row, "eager_max")));
}

// Whether the counts fit the protocol that was asked for.
void examine_protocol(const Json& row, const Json& repetition, Findings& findings) {
	const std::uint64_t operations = count_in(repetition, "operations"), direct = by_rendezvous(repetition),
						one_sided = count_in(repetition, "one_sided"), eager = count_in(repetition, "eager"),
						reads = count_in(repetition, "reads"), writes = count_in(repetition, "writes"),
						leased = count_in(repetition, "leased"), messages = count_in(repetition, "messages"),
						copied = count_in(repetition, "copied");
	const std::string proto = word_of(row, "proto"), form = word_of(row, "form");
	const bool is_set = word_of(row, "op") == "SET";
	if (direct + one_sided > operations)
		findings.invalid(
			fmt::format("{} rendezvous and {} one-sided GETs of {} operations", direct, one_sided, operations));
	else if (proto == "rendezvous" && direct < operations)
		findings.invalid(fmt::format("not all operations used rendezvous: {} of {}", direct, operations));
	if (proto == "auto") examine_choice(row, direct, operations, findings);
	if (proto == "eager" && direct > 0) findings.invalid(fmt::format("{} operations were not eager", direct));
	if (proto != "one-sided" && one_sided > 0) findings.invalid(fmt::format("{} GETs were one-sided", one_sided));
	if (proto == "one-sided" && one_sided < operations)
		findings.suspect(fmt::format("{} GETs had to ask by message", operations - one_sided));
	if (word_of(row, "transport") == "tcp" && direct + one_sided > 0)
		findings.invalid(fmt::format("{} operations used RDMA over TCP", direct + one_sided));
	if (is_set ? reads > 0 || one_sided > 0 : writes > 0 || leased > 0)
		findings.invalid(is_set ? "a SET was read" : "a GET was written");
	if (form == "read" && writes > 0) findings.invalid(fmt::format("{} values were written, not read", writes));
	if (form == "write" && leased > 0) findings.invalid(fmt::format("{} values were read, not written", leased));
	// A GET by rendezvous asks by a complete message.
	if (eager != operations - std::min(operations, one_sided + (is_set ? direct : 0)))
		findings.invalid(fmt::format("{} complete requests of {} operations", eager, operations));
	if (messages < 2 * (operations - std::min(operations, one_sided) + writes))
		findings.invalid(fmt::format("{} messages are too few for {} operations", messages, operations));
	if (static_cast<double>(messages) > messages_most * static_cast<double>(operations))
		findings.invalid(fmt::format("{} messages are too many for {} operations", messages, operations));
	if (copied > leased + writes) findings.invalid(fmt::format("{} values copied for {} rendezvous", copied, direct));
	if (const std::uint64_t registrations = count_in(repetition, "registrations"); registrations > 0)
		findings.suspect(fmt::format("{} memory registrations during the timed operations", registrations));
}

void examine_words(const Json& row, Findings& findings) {
	bench::examine_word(row, "op", {"SET", "GET"}, findings);
	bench::examine_word(
		row, "protocol", {"eager", "rendezvous", "one-sided", "mixed", "none", "RESP", "text"}, findings);
	bench::examine_word(row, "system", {"verbena", "redis", "memcached"}, findings);
	bench::examine_word(row, "proto", {"eager", "rendezvous", "auto", "one-sided"}, findings);
	bench::examine_word(row, "form", {"read", "write"}, findings);
	bench::examine_word(row, "transport", {"rdma", "tcp", "unix"}, findings);
	bench::examine_word(row, "varied", {"depth", "warmup", "iters", "stalled"}, findings);
	for (const char* column : {"value_bytes", "window", "clients", "iters"})
		if (const auto count = number_of(row, column); count && count->value < 1)
			findings.invalid(fmt::format("{} is not 1 or more", column));
	if (!is_rival(row) && bench::has_value(row, "repetitions") && value_in(row, "value_bytes") > kv::value_max)
		findings.invalid(
			fmt::format("values of {} B, but the store takes {} B", word_of(row, "value_bytes"), kv::value_max));
}

// The combinations of words that a cell of ours can have.
void examine_cell(const Json& row, const Table& table, Findings& findings) {
	const std::string proto = word_of(row, "proto"), transport = word_of(row, "transport");
	const bool rival = is_rival(row);
	for (const char* column : {"system", "window", "clients", "transport", "warmup", "iters", "seconds_max"})
		if (!bench::has_value(row, column)) findings.invalid(fmt::format("there is no {}", column));
	if (rival ? transport == "rdma" : transport == "unix")
		findings.invalid(fmt::format("{} does not speak {}", word_of(row, "system"), transport));
	if (rival) return;
	if (proto.empty()) findings.invalid("there is no proto");
	if (proto == "one-sided" && word_of(row, "op") == "SET") findings.invalid("a SET cannot be one-sided");
	if (transport == "tcp" && (proto == "rendezvous" || proto == "one-sided")) findings.invalid(proto + " needs RDMA");
	if (const std::string_view of_table = bench::value_of(table.environment, "transport");
		!of_table.empty() && of_table != transport)
		findings.invalid(fmt::format("transport is {}, but the environment says {}", transport, of_table));
}

void examine_arithmetic(const Json& row, Findings& findings) {
	const auto gigabytes = number_of(row, "gigabytes_per_second"), rate = number_of(row, "operations_per_second"),
			   size = number_of(row, "value_bytes");
	if (!gigabytes) return findings.invalid("there is no rate");
	if (gigabytes->value == 0 && !bench::has_value(row, "repetitions")) findings.invalid("the rate is 0");
	if (!rate || !size) return;
	const double expected = rate->value * size->value / 1e9;
	const double tolerance = gigabytes->rounding + rate->rounding * size->value / 1e9 + 1e-6 * expected;
	if (std::abs(gigabytes->value - expected) > tolerance)
		findings.invalid(fmt::format("gigabytes_per_second {} is not operations_per_second * value_bytes / 10^9 = {}",
			three_digits(gigabytes->value), three_digits(expected)));
}

}  // namespace

void examine_repetition(const Json& row, const Json& repetition, Findings& findings) {
	const std::string failure = repetition.at("failure").get<std::string>();
	if (!failure.empty()) return findings.invalid(failure);
	if (const std::uint64_t wrong = count_in(repetition, "wrong"); wrong > 0)
		findings.invalid(fmt::format("{} values differ from those set", wrong));
	examine_extent(row, repetition, findings);
	examine_latencies(repetition, findings);
	examine_least_times(repetition, findings);
	examine_under_way(row, repetition, findings);
	if (!is_rival(row)) examine_protocol(row, repetition, findings);
}

void examine_row(const Json& row, const Table& table, Findings& findings) {
	examine_words(row, findings);
	if (bench::has_value(row, "repetitions")) {
		examine_cell(row, table, findings);
	}
	examine_arithmetic(row, findings);
	bench::examine_percentiles(row, {}, findings);
	if (!is_rival(row)) bench::examine_link(table.environment, value_in(row, "gigabytes_per_second") * 8, findings);
	if (const double spread = value_in(row, "spread"); spread > spread_max)
		findings.suspect(fmt::format("repetitions differ by {:.0f} % of their median", spread * 100));
}

}  // namespace verbena::kvbench

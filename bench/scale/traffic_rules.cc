// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/traffic_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/judge/judge.h"
#include "bench/judge/least_times.h"
#include "bench/judge/link.h"
#include "bench/scale/repetition.h"

namespace verbena::scale {
namespace {

using bench::count_in;
using bench::Findings;
using bench::Json;
using bench::number_of;
using bench::three_digits;

// The part of the wanted rate, and of the wanted time, that must be reached.
constexpr double rate_kept = 0.9, window_kept = 0.9;
// The factor between the server's rate and the clients' from which a run was disturbed: the two
// count the same echoes, in times that differ a little.
constexpr double rates_apart = 1.5, rates_apart_in_long_runs = 1.1;
// The share of its window that a client has under way: the sends of a full one take their time.
constexpr double few_under_way = 0.25;
// Messages of clients that share a queue pair leave together, as many as a frame holds.
constexpr double frame_bytes = 64 << 10;
constexpr double fair = 0.95;
// Messages of a client on average from which on work is compared. With fewer, clients differ only
// because the measured time ends between one message and the next.
constexpr double messages_for_fairness = 10;
// The sum of the latencies is exact, and only the ends of the measured time are not.
constexpr double sums_tolerance = 1.01;
constexpr double long_run_s = 1, many_latencies = 100;

// The counts of a repetition as numbers to compute with.
struct Traffic {
	Traffic(const Json& row, const Json& repetition)
		: clients(static_cast<double>(clients_of(repetition))),
		  window(setting(row, "window")),
		  rate(setting(row, "rate")),
		  think_s(setting(row, "think_ms") / 1e3),
		  messages(setting(row, "messages")),
		  seconds(setting(row, "seconds")),
		  size(setting(row, "size")),
		  echoes(count(repetition, "echoes")),
		  counted(count(repetition, "counted")),
		  counted_s(count(repetition, "counted_ns") / 1e9),
		  messages_s(count(repetition, "messages_ns") / 1e9),
		  warmup_s(setting(row, "warmup_s")),
		  latencies(count(repetition, "latencies")),
		  latency_sum_s(count(repetition, "latency_sum_ns") / 1e9),
		  longest_s(setting(repetition, "latency_max_ms") / 1e3),
		  all_good(count(repetition, "good") == clients) {}

	bool timed() const { return seconds > 0; }
	bool paced() const { return rate > 0; }
	// The time in which the latencies were taken.
	double latencies_s() const { return timed() ? seconds : messages_s; }
	double mean_latency_s() const { return latencies > 0 ? latency_sum_s / latencies : 0; }
	// Clients that do nothing but send and wait for echoes, for the whole measured time.
	bool only_wait() const { return timed() && !paced() && think_s == 0 && messages == 0 && all_good; }

	double clients, window, rate, think_s, messages, seconds, size;
	double echoes, counted, counted_s, messages_s, warmup_s, latencies, latency_sum_s, longest_s;
	bool all_good;

private:
	static double setting(const Json& object, const char* name) {
		return number_of(object, name).value_or(bench::Number{}).value;
	}
	static double count(const Json& repetition, const char* name) {
		return static_cast<double>(count_in(repetition, name));
	}
};

void examine_counts(const Json& repetition, const Traffic& is, Findings& findings) {
	if (static_cast<double>(count_in(repetition, "payload_bytes")) != is.echoes * is.size)
		findings.invalid(
			fmt::format("{} echoes of {} B are not {} B", is.echoes, is.size, count_in(repetition, "payload_bytes")));
	const char* const counted_in = is.timed() ? "window_ns" : "messages_ns";
	if (count_in(repetition, "counted_ns") != count_in(repetition, counted_in))
		findings.invalid(fmt::format("counted_ns is not {}", counted_in));
	if (is.timed() ? is.counted > is.echoes && is.all_good : is.counted != is.echoes)
		findings.invalid(fmt::format("{} echoes were counted, but the clients verified {}", is.counted, is.echoes));
	if (is.timed() ? is.latencies > is.echoes : is.latencies != is.echoes)
		findings.invalid(fmt::format("{} latencies of {} echoes", is.latencies, is.echoes));
	const double most = is.messages * is.clients;
	if (is.messages > 0 && (is.echoes > most || (!is.timed() && is.all_good && is.echoes != most)))
		findings.invalid(fmt::format("{} echoes of {} messages of {} clients", is.echoes, is.messages, is.clients));
	const auto squares = static_cast<double>(count_in(repetition, "echoes_squared"));
	if (squares * is.clients < is.echoes * is.echoes * (1 - rounding) ||
		squares > is.echoes * is.echoes * (1 + rounding))
		findings.invalid(
			fmt::format("{} echoes of {} clients have no sum of squares of {}", is.echoes, is.clients, squares));
}

// Each echo of a client with a queue pair of its own and one message under way needs a post.
void examine_posts(const Json& row, const Json& repetition, const Traffic& is, Findings& findings) {
	if (!has_server(repetition) || bench::word_of(row, "transport") != name_of(Transport::rdma)) return;
	const auto posts = count_in(repetition, "send_posts"), lists = count_in(repetition, "receive_posts");
	const auto shared = number_of(row, "shared_qps");
	const auto least = is.window == 1 && shared && shared->value == 0 ? count_in(repetition, "echoes") : 0;
	// The server's echoes of a frame leave in a frame.
	const double most_of_post = std::max(1.0, frame_bytes / std::max(1.0, is.size));
	if (posts < least || (is.echoes > 0 && (posts == 0 || lists == 0)) ||
		is.echoes > most_of_post * static_cast<double>(posts))
		findings.invalid(
			fmt::format("{} sends and {} lists of receives were posted for {} echoes", posts, lists, is.echoes));
}

void examine_pace(const Traffic& is, Findings& findings) {
	// Each client may be one message ahead of its pace.
	if (is.paced() && is.echoes > is.rate * is.messages_s * (1 + rounding) + is.clients)
		findings.invalid(fmt::format("{} echoes in {} s are more than the {} a second that were offered", is.echoes,
			three_digits(is.messages_s), is.rate));
	if (is.paced() || is.think_s == 0 || is.messages_s == 0) return;
	// A client pauses after each echo while it has more to send.
	const double most = is.clients * (is.messages_s / is.think_s + is.window + 1);
	if (is.echoes > most * (1 + rounding))
		findings.invalid(fmt::format(
			"{} echoes, but clients that pause for {} s after each have time for {:.0f}", is.echoes, is.think_s, most));
}

// The latencies, the warm-up and the measured time lie within the time of all messages.
void examine_extent(const Json& repetition, const Traffic& is, Findings& findings) {
	const auto longer = [&](double part_s, std::string_view what) {
		if (part_s > is.messages_s * (1 + rounding))
			findings.invalid(fmt::format(
				"{} of {} s, but all messages took {} s", what, three_digits(part_s), three_digits(is.messages_s)));
	};
	longer(is.longest_s, "a latency");
	if (is.timed()) longer(is.counted_s + (is.counted > 0 ? is.warmup_s : 0), "warm-up and measured time");
	if (has_server(repetition))
		if (const auto switches = number_of(repetition, "server_switches"))
			bench::examine_pace(switches->value, "switches of the server", is.messages_s * 1e9, findings);
	bench::examine_pace(is.counted, "echoes", is.counted_s * 1e9, findings);
}

// Clients that do nothing but send and wait always have a message under way. But a process that is
// off its processor is late with the next message, which shows in no latency. So a run that had a
// little less under way is only suspect, and one that had next to none is invalid only if it is
// long, and has many latencies.
void examine_under_way(const Json& repetition, const Traffic& is, Findings& findings) {
	if (is.latencies > 0) bench::examine_answers(repetition, echo_times, is.mean_latency_s() * 1e9, "echoes", findings);
	if (is.paced() || is.latencies == 0 || is.latencies_s() == 0) return;
	const double slots = is.clients * is.window;
	const bool says_much =
		is.only_wait() && is.seconds >= long_run_s && is.latencies >= many_latencies && 4 * is.longest_s < is.seconds;
	bench::examine_little(is.latencies / is.latencies_s(), is.mean_latency_s(),
		{.what = "messages", .most = slots, .only_waits = says_much, .tolerance = sums_tolerance}, findings);
	// A latency counts if its message began and ended in the measured time, so each client lacks
	// one at either end.
	const double under_way = (is.latency_sum_s + 2 * slots * is.longest_s) / is.latencies_s();
	const double least = std::max(is.clients / bench::little_tolerance, few_under_way * slots);
	if (!is.only_wait() || under_way >= least) return;
	const std::string text = fmt::format(
		"rate and latency give {} messages under way on average, but {} clients do "
		"nothing but send and wait",
		three_digits(is.latency_sum_s / is.seconds), is.clients);
	if (says_much && under_way < bench::little_minimum * slots) findings.invalid(text);
	else findings.suspect(text);
}

void examine_rate(const Traffic& is, Findings& findings) {
	if (!is.timed()) return;
	if (is.counted_s == 0) return findings.suspect("nothing was measured");
	const double rate = is.counted / is.counted_s;
	if (is.counted_s < window_kept * is.seconds)
		findings.suspect(fmt::format("measured for {:.2f} of {:.2f} s, because {}", is.counted_s, is.seconds,
			is.messages > 0 ? "a client had sent all of its messages" : "the watching process was late"));
	if (is.paced() && rate < rate_kept * is.rate)
		findings.suspect(fmt::format("the rate was not reached: {:.0f} of {:.0f} messages a second", rate, is.rate));
	if (is.paced() && rate_kept * rate > is.rate)
		findings.suspect(
			fmt::format("{:.0f} messages a second are more than the {:.0f} that were offered: the "
						"clients were late, and caught up",
				rate, is.rate));
	// Messages that were under way at the beginning or at the end have no latency.
	const double least = is.latencies / is.seconds, most = (is.latencies + 2 * is.clients * is.window) / is.seconds;
	const double apart = is.seconds >= long_run_s ? rates_apart_in_long_runs : rates_apart;
	if (is.all_good && (rate > apart * most || apart * rate < least))
		findings.suspect(fmt::format(
			"the server counted {} echoes a second, and the clients {}", three_digits(rate), three_digits(least)));
}

void examine_fairness(const Json& repetition, const Traffic& is, Findings& findings) {
	const auto jain = fairness_of(repetition);
	if (!is.timed() || is.paced() || !is.all_good || !jain || is.echoes < messages_for_fairness * is.clients) return;
	if (*jain < fair) findings.suspect(fmt::format("the clients did unequal work: Jain's index is {:.2f}", *jain));
}

}  // namespace

void examine_traffic(const Json& row, const Json& repetition, Findings& findings) {
	const Traffic is(row, repetition);
	examine_counts(repetition, is, findings);
	examine_posts(row, repetition, is, findings);
	examine_pace(is, findings);
	examine_extent(repetition, is, findings);
	examine_under_way(repetition, is, findings);
	examine_rate(is, findings);
	examine_fairness(repetition, is, findings);
}

void examine_link(const Json& row, const bench::Table& table, Findings& findings) {
	const auto rate = number_of(row, "messages_per_second"), size = number_of(row, "size");
	if (rate && size && bench::word_of(row, "transport") == name_of(Transport::rdma))
		bench::examine_link(table.environment, rate->value * size->value * 8 / 1e9, findings);
}

}  // namespace verbena::scale

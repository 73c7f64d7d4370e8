// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/judge/cells.h"
#include "bench/judge/judge.h"
#include "bench/judge/least_times.h"
#include "bench/judge/link.h"
#include "bench/judge/repetitions.h"
#include "bench/rcud/labels.h"
#include "bench/rcud/repetition.h"
#include "bench/rcud/sample_rules.h"
#include "bench/rcud/traffic.h"

namespace verbena::rcud {
namespace {

using bench::Findings;
using bench::number_of;
using bench::Table;
using bench::three_digits;
using bench::value_in;
using bench::word_of;

constexpr double mtus[] = {256, 512, 1024, 2048, 4096};  // IBA 9.6
constexpr double loss_tolerated = 0.01;
// Rounded numbers that differ by more than this share say nothing about each other.
constexpr double rounding_tolerated = 0.3;
// The receiver's rate above the sender's from which a run was too short, or disturbed. A sender
// that is off its processor before its first message or after its last one takes more time, but not
// by a part of a long run.
constexpr double rates_apart = 1.5, rates_apart_in_long_runs = 1.05;
constexpr double time_slice_ns = 20e6;
constexpr double window_max = 4096;  // the limit of --windows
constexpr double msg_max = 1u << 31;  // bytes (IBA 9.7.7)
// With a local window the receiver may be late by the messages that its queue holds, which are few
// beside those of a long run, and by some time slices in which it is off its processor.
constexpr std::uint64_t long_run_messages = 100'000;
constexpr double receiver_late_ms = 100;
// The rate of a shorter time is that of a few polls.
constexpr double least_counted_ns = 10'000;

// The receiver's own queue pairs, and those of the senders from which it got messages.
void examine_queue_pairs_of(const bench::Json& row, const bench::Json& repetition, Findings& findings) {
	if (word_of(row, "experiment") != qp_sweep) {
		if (repetition.contains("qps_used")) findings.invalid(fmt::format("it is a repetition of {}", qp_sweep));
		return;
	}
	const std::uint64_t own = bench::count_in(repetition, "receiver_qps"),
						used = bench::count_in(repetition, "qps_used"), posted = bench::count_in(repetition, "posted"),
						delivered = bench::count_in(repetition, "delivered");
	const auto qps = static_cast<std::uint64_t>(value_in(row, "qps"));
	if (own != (word_of(row, "mode") == "RC" ? qps : 1))
		findings.invalid(fmt::format("{} queue pairs at the receiver of {} by {}", own, qps, word_of(row, "mode")));
	if (used > qps || used > delivered || used == 0 || (delivered == posted && used < std::min(posted, qps)))
		findings.invalid(fmt::format("messages came from {} of {} queue pairs, each of which sent in turn", used, qps));
	else if (used < qps) findings.suspect(fmt::format("messages came from {} of {} queue pairs", used, qps));
}

void examine_rates(const bench::Json& repetition, double sender_ns, Findings& findings) {
	const double posted = static_cast<double>(bench::count_in(repetition, "posted")) * 1e3 / sender_ns,
				 counted = mops_of(repetition);
	if (counted <= rates_apart_in_long_runs * posted) return;
	// The time that the sender would have needed at the receiver's rate.
	const double least_ns = sender_ns * posted / counted;
	if (counted > rates_apart * posted || sender_ns - least_ns > time_slice_ns)
		findings.suspect(fmt::format("the receiver counted {} Mops, but the sender posted {}: the run was too short",
			three_digits(counted), three_digits(posted)));
}

// With credits the sender's time spans that of the receiver, so only a clock that jumps, or a
// processor that did something else, makes it shorter.
void examine_receiver_time(const bench::Json& row, const bench::Json& repetition, Findings& findings) {
	const bool spans = word_of(row, "window_mode") == "credit" || word_of(row, "op") == "write";
	if (!spans && bench::count_in(repetition, "delivered") < long_run_messages) return;
	const auto receiver = static_cast<double>(bench::count_in(repetition, "counted_ns")) / 1e6,
			   sender = static_cast<double>(bench::count_in(repetition, "sender_ns")) / 1e6;
	if (sender > 0 && receiver > rates_apart * sender + (spans ? 0 : receiver_late_ms))
		findings.suspect(fmt::format("the receiver took {} ms, but the sender {} ms: a clock jumped, or waited",
			three_digits(receiver), three_digits(sender)));
}

// `checked` itself is compared with the row's.
void examine_verification(const bench::Json& repetition, Findings& findings) {
	if (word_of(repetition, "checked") == "bytes" && bench::number_in(repetition, "mops_unverified") == 0)
		findings.invalid("every byte was checked, but there is no rate without that");
	if (bench::has_value(repetition, "mops_unverified"))
		bench::examine_pace(
			bench::number_in(repetition, "mops_unverified") * 1e6, "messages without the check", 1e9, findings);
}

// The receiver counts all messages but those of its first poll.
void examine_counted(const bench::Json& row, const bench::Json& repetition, Findings& findings) {
	const auto count = [&](const char* name) { return static_cast<double>(bench::count_in(repetition, name)); };
	const double delivered = count("delivered"), counted = count("counted"), posted = count("posted");
	const double senders = std::max(1.0, value_in(row, "senders"));
	if (counted > delivered) findings.invalid(fmt::format("{} counted of {} delivered", counted, delivered));
	else if (counted + poll_batch < delivered)
		findings.invalid(fmt::format(
			"{} counted of {} delivered, but the first poll took at most {}", counted, delivered, poll_batch));
	for (const char* name : {"reordered", "duplicated"})
		if (count(name) > posted) findings.invalid(fmt::format("{} of {} messages {}", count(name), posted, name));
	bench::examine_pace(counted, "messages", count("counted_ns"), findings, bench::messages_per_ns_most * senders);
	if (count("counted_ns") < least_counted_ns)
		findings.suspect(fmt::format("{} messages were counted in {} us: too few say nothing", counted,
			three_digits(count("counted_ns") / 1e3)));
	bench::examine_pace(
		counted * value_in(row, "msg"), "bytes", count("counted_ns"), findings, bench::bytes_per_ns_most);
	bench::examine_pace(
		posted, "messages of each sender", count("sender_ns"), findings, bench::messages_per_ns_most * senders);
}

void examine_mode(const bench::Json& row, const Table& table, Findings& findings) {
	if (word_of(row, "mode") != "RC" && bench::has_value(row, "op") && word_of(row, "op") != "send")
		findings.invalid(fmt::format("UD has no RDMA {}", word_of(row, "op")));
	for (const char* column : {"device", "mtu"}) {
		const std::string of_row = word_of(row, column), of_table(bench::value_of(table.environment, column));
		if (!of_row.empty() && !of_table.empty() && of_row != of_table)
			findings.invalid(fmt::format("{} is {}, but the environment says {}", column, of_row, of_table));
	}
}

void examine_words(const bench::Json& row, Findings& findings) {
	bench::examine_word(row, "experiment", {msg_sweep, qp_sweep}, findings);
	bench::examine_word(row, "mode", {"RC", "UD", "UD-seg"}, findings);
	bench::examine_word(row, "op", {"send", "write", "read"}, findings);
	bench::examine_word(row, "window_mode", {"local", "credit"}, findings);
	bench::examine_word(row, "checked", {"stamps", "bytes"}, findings);
	for (const char* column : {"msg", "window", "iters"})
		if (const auto count = number_of(row, column); !count || count->value < 1)
			findings.invalid(fmt::format("{} is not 1 or more", column));
	if (value_in(row, "msg") > msg_max)
		findings.invalid(fmt::format("InfiniBand has no message of {} B", word_of(row, "msg")));
	if (!bench::has_value(row, "repetitions")) return;
	for (const char* column : {"op", "window_mode"})
		if (!bench::has_value(row, column)) findings.invalid(fmt::format("there is no {}", column));
	if (value_in(row, "window") > window_max)
		findings.invalid(fmt::format("the window is {}, but at most {}", word_of(row, "window"), window_max));
}

// A row of many queue pairs has its columns, and no other row has them.
void examine_queue_pairs(const bench::Json& row, Findings& findings) {
	const auto qps = number_of(row, "qps"), senders = number_of(row, "senders");
	if (word_of(row, "experiment") != qp_sweep) {
		for (const char* column : {"qps", "senders", "receiver_qps", "qps_used"})
			if (bench::has_value(row, column)) findings.invalid(fmt::format("{} is for {} alone", column, qp_sweep));
		return;
	}
	if (!qps || !senders || qps->value < 1 || senders->value < 1 || std::fmod(qps->value, senders->value) != 0)
		findings.invalid("its queue pairs are not an equal number for each of its senders");
	if (word_of(row, "mode") == "UD-seg" || word_of(row, "op") != "send")
		findings.invalid(fmt::format("{} has only whole messages of SEND", qp_sweep));
	if (value_in(row, "window") < value_in(row, "senders")) findings.invalid("the window is below one a sender");
}

void examine_mtu(const bench::Json& row, Findings& findings) {
	const auto stated = number_of(row, "mtu");
	const double mtu = stated ? stated->value : std::ranges::max(mtus), msg = value_in(row, "msg");
	if (std::ranges::find(mtus, mtu) == std::end(mtus))
		findings.invalid(fmt::format("InfiniBand has no MTU of {} B", mtu));
	const std::string mode = word_of(row, "mode");
	if (mode == "UD-seg" && stated && msg <= mtu)
		findings.invalid(fmt::format("a message of {} B is not cut at an MTU of {} B", msg, mtu));
	if (mode != "UD" || msg <= mtu) return;
	findings.invalid(
		fmt::format("UD message of {} B is larger than the MTU of {} B: such a send emits nothing", msg, mtu));
}

void examine_arithmetic(const bench::Json& row, Findings& findings) {
	const auto mops = number_of(row, "mops"), gib = number_of(row, "gib"), msg = number_of(row, "msg");
	if (!mops || !gib || !msg) return findings.invalid("there is no rate");
	const double expected = gib_of(mops->value, msg->value);
	// Numbers in full precision have no rounding to speak of; allow a millionth for their text.
	const double tolerance = gib->rounding + gib_of(mops->rounding, msg->value) + 1e-6 * expected;
	// Also if one of them is beyond the numbers that there are.
	if (!(std::abs(gib->value - expected) <= tolerance) || !std::isfinite(expected))
		findings.invalid(
			fmt::format("gib {} is not mops * msg / 2^30 = {}", three_digits(gib->value), three_digits(expected)));
	else if (std::abs(gib->value - expected) > rounding_tolerated * expected)
		findings.suspect(fmt::format("gib {} is mops * msg / 2^30 = {} only within the rounding of few digits",
			three_digits(gib->value), three_digits(expected)));
}

void examine_account(const bench::Json& row, Findings& findings) {
	if (!number_of(row, "delivered")) return;
	const double posted = value_in(row, "posted"), lost = value_in(row, "lost");
	if (value_in(row, "delivered") == 0) return findings.invalid("nothing delivered");
	if (word_of(row, "mode") == "RC")
		for (const char* did : {"lost", "duplicated", "reordered"})
			if (value_in(row, did) > 0) findings.invalid(fmt::format("RC {} {} messages", did, word_of(row, did)));
	if (lost == 0 || posted == 0) return;
	const std::string text = fmt::format("{} of {} lost", lost, posted);
	if (lost <= loss_tolerated * posted) return findings.remark(text);
	findings.suspect(
		fmt::format("{} ({} %): the receiver did not keep up, so this is the rate of the messages that found a receive",
			text, three_digits(100 * lost / posted)));
}

// The plateau of RC in GiB/s among the rows that are measured like `like`: the rate that no longer
// grows with the message size. 0 if there is none.
double rc_plateau(const Table& table, const bench::Json& like) {
	std::vector<std::pair<double, double>> rc;  // message size, GiB/s
	for (const bench::Json& row : table.rows) {
		const auto gib = number_of(row, "gib");
		const bool alike = std::ranges::all_of(
			std::initializer_list{"experiment", "window", "op", "window_mode", "qps", "senders", "device"},
			[&](const char* column) { return word_of(row, column) == word_of(like, column); });
		if (gib && alike && word_of(row, "mode") == "RC") rc.emplace_back(value_in(row, "msg"), gib->value);
	}
	if (rc.size() < 2) return 0;
	std::ranges::sort(rc);
	const double last = rc.back().second, before = rc[rc.size() - 2].second;
	if (std::abs(last - before) >= 0.1 * std::max(last, before)) return 0;
	return std::ranges::max(rc, {}, &std::pair<double, double>::second).second;
}

void examine_plateau(const bench::Json& row, const Table& table, Findings& findings) {
	const auto gib = number_of(row, "gib");
	if (!word_of(row, "mode").starts_with("UD") || !gib) return;
	if (word_of(row, "device").starts_with("vb_") && number_of(row, "delivered")) return;
	const double plateau = rc_plateau(table, row);
	if (plateau == 0 || gib->value <= 1.02 * plateau) return;
	findings.suspect(fmt::format("{} GiB/s is above the plateau of {} GiB/s that RC reaches at window {}",
		three_digits(gib->value), three_digits(plateau), word_of(row, "window")));
}

void examine_link(const bench::Json& row, const Table& table, Findings& findings) {
	if (const auto gib = number_of(row, "gib"))
		bench::examine_link(table.environment, gib->value * 8 * (1u << 30) / 1e9, findings);
}

}  // namespace

void examine_repetition(const bench::Json& row, const bench::Json& repetition, Findings& findings) {
	const std::uint64_t posted = bench::count_in(repetition, "posted"),
						delivered = bench::count_in(repetition, "delivered"),
						completed = bench::count_in(repetition, "completed"),
						iters = bench::count_in(repetition, "iters"), corrupt = bench::count_in(repetition, "corrupt");
	const std::string failure = repetition.at("failure").get<std::string>();
	bench::examine_cell_name(repetition, title(row), findings);
	if (!failure.empty())
		findings.invalid(fmt::format("{} ({} posted, {} known to be delivered)", failure, posted, delivered));
	if (posted > iters) findings.invalid(fmt::format("{} posted of {}", posted, iters));
	if (delivered > posted) findings.invalid(fmt::format("{} delivered of {} posted", delivered, posted));
	if (completed > posted) findings.invalid(fmt::format("{} completed of {} posted", completed, posted));
	const double bytes = static_cast<double>(delivered) * value_in(row, "msg");
	if (std::abs(static_cast<double>(bench::count_in(repetition, "payload_bytes")) - bytes) > 1e-12 * bytes)
		findings.invalid(fmt::format("{} payload bytes are not {} messages of {} B",
			bench::count_in(repetition, "payload_bytes"), delivered, word_of(row, "msg")));
	if (std::abs(repetition.at("mops").get<double>() - mops_of(repetition)) > 1e-9 * mops_of(repetition))
		findings.invalid(fmt::format("mops {} is not counted / counted_ns", repetition["mops"].dump()));
	if (corrupt > 0) findings.invalid(fmt::format("{} messages arrived damaged", corrupt));
	if (const auto stale = bench::count_in(repetition, "stale"); stale > 0 && word_of(row, "mode") == "RC")
		findings.invalid(fmt::format("{} messages of another run arrived over RC", stale));
	// When a run fails, messages are under way; the transport has not lost them.
	if (!failure.empty() || delivered == 0) return;
	examine_queue_pairs_of(row, repetition, findings);
	examine_counted(row, repetition, findings);
	if (bench::count_in(repetition, "counted") == 0 || bench::count_in(repetition, "counted_ns") == 0)
		findings.invalid("too few messages were delivered to be timed");
	if (posted < iters)
		findings.suspect(fmt::format("ended after {} of {} messages, because credits were lost", posted, iters));
	const auto took = static_cast<double>(bench::count_in(repetition, "sender_ns"));
	if (took == 0) findings.invalid("the sender took no time");
	else examine_rates(repetition, took, findings);
	examine_receiver_time(row, repetition, findings);
	examine_verification(repetition, findings);
	if (const auto window = number_of(row, "window"); window && static_cast<double>(posted - completed) > window->value)
		findings.invalid(
			fmt::format("{} of {} posted completed, but the window is {}", completed, posted, window->value));
	examine_samples(row, repetition, findings);
}

void examine_row(const bench::Json& row, const Table& table, Findings& findings) {
	examine_words(row, findings);
	examine_mode(row, table, findings);
	examine_queue_pairs(row, findings);
	examine_account(row, findings);
	examine_mtu(row, findings);
	examine_arithmetic(row, findings);
	bench::examine_percentiles(row, {}, findings);
	examine_link(row, table, findings);
	examine_plateau(row, table, findings);
	examine_number_of_samples(row, table, findings);
}

void examine_table(const Table& table, std::span<Findings> findings) {
	bench::examine_cell_names(table, findings);
	for (const char* column : {"device", "mtu"}) {
		const auto first =
			std::ranges::find_if(table.rows, [&](const bench::Json& row) { return !word_of(row, column).empty(); });
		for (std::size_t i = 0; i < table.rows.size(); ++i)
			if (const std::string own = word_of(table.rows[i], column); !own.empty() && own != word_of(*first, column))
				findings[i].not_comparable(
					fmt::format("its {} is {}, and that of another row {}", column, own, word_of(*first, column)));
	}
}

}  // namespace verbena::rcud

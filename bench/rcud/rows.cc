// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/statistics.h"
#include "bench/far_end/round_trip.h"
#include "bench/judge/cells.h"
#include "bench/judge/distance.h"
#include "bench/judge/repetitions.h"
#include "bench/rcud/labels.h"
#include "bench/rcud/rules.h"

namespace verbena::rcud {
namespace {

using bench::Column;
using bench::Kind;
using bench::Role;
using bench::word_of;

constexpr Column columns[] = {
	{"experiment", Kind::word, Role::cell, true},
	{"mode", Kind::word, Role::cell, true},
	{"msg", Kind::count, Role::cell, true},
	{"window", Kind::count, Role::cell, true},
	{"iters", Kind::count, Role::setting, true},
	{"mops", Kind::number, Role::result, true},
	{"gib", Kind::number, Role::result, true},
	{"op", Kind::word, Role::cell},
	{"window_mode", Kind::word, Role::cell},
	{"qps", Kind::count, Role::cell},
	{"senders", Kind::count, Role::cell},
	{"receiver_qps", Kind::count, Role::result},
	{"qps_used", Kind::count, Role::result},
	{"device", Kind::word, Role::setting},
	{"mtu", Kind::count, Role::setting},
	{"posted", Kind::count, Role::result},
	{"completed", Kind::count, Role::result},
	{"delivered", Kind::count, Role::result},
	{"lost", Kind::count, Role::result},
	{"duplicated", Kind::count, Role::result},
	{"reordered", Kind::count, Role::result},
	{"checked", Kind::word, Role::setting},
	{"mops_unverified", Kind::number, Role::result},
	{"spread", Kind::number, Role::result},
	{"mops_low", Kind::number, Role::result},
	{"mops_high", Kind::number, Role::result},
	{"p50_us", Kind::number, Role::result},
	{"p90_us", Kind::number, Role::result},
	{"p99_us", Kind::number, Role::result},
	{"p999_us", Kind::number, Role::result},
	{"p9999_us", Kind::number, Role::result},
	{"max_us", Kind::number, Role::result},
	{"rtt_before_ns", Kind::number, Role::result},
	{"rtt_after_ns", Kind::number, Role::result},
	{"rtt_class", Kind::word, Role::result},
	{"validity", Kind::word, Role::verdict},
	{"reason", Kind::word, Role::verdict},
	{"repetitions", Kind::list, Role::evidence},
	{"apart", Kind::list, Role::evidence},
};

void add_round_trips(bench::Json& summary, const bench::Json& repetitions) {
	std::vector<double> all;
	for (const char* name : {"rtt_before_ns", "rtt_after_ns"}) {
		const std::vector<double> trips = bench::numbers_in(repetitions, name);
		bench::add_plain_median(summary, name, trips);
		all.insert(all.end(), trips.begin(), trips.end());
	}
	const double middle = all.empty() ? 0 : median(all);
	const bool is_one = std::ranges::all_of(all, [&](double trip) { return bench::alike(trip, middle); });
	summary["rtt_class"] = all.empty() ? "" : is_one ? bench::class_of(middle) : "mixed";
}

bench::Json summarize(const bench::Json& row, const bench::Json& repetitions) {
	std::vector<double> rates;
	std::string checked;
	std::uint64_t iters = 0, posted = 0, completed = 0, delivered = 0, duplicated = 0, reordered = 0;
	for (const bench::Json& each : repetitions) {
		rates.push_back(mops_of(each));
		// Tables of an earlier version do not say it.
		const std::string one = word_of(each, "checked");
		checked = &each == &repetitions.front() || checked == one ? one : "mixed";
		iters = std::max(iters, bench::count_in(each, "iters"));
		posted += bench::count_in(each, "posted");
		completed += bench::count_in(each, "completed");
		delivered += bench::count_in(each, "delivered");
		duplicated += bench::count_in(each, "duplicated");
		reordered += bench::count_in(each, "reordered");
	}
	bench::Json summary{{"iters", iters},
		{"gib", gib_of(median(rates), bench::number_of(row, "msg").value_or(bench::Number{}).value)},
		{"posted", posted}, {"completed", completed}, {"delivered", delivered},
		{"lost", posted - std::min(posted, delivered)}, {"duplicated", duplicated}, {"reordered", reordered},
		{"checked", checked.empty() ? bench::Json(nullptr) : bench::Json(checked)}, {"spread", spread(rates)}};
	if (word_of(row, "experiment") == qp_sweep) {
		std::uint64_t receiver_qps = UINT64_MAX, used = UINT64_MAX;
		for (const bench::Json& each : repetitions) {
			receiver_qps = std::min(receiver_qps, bench::count_in(each, "receiver_qps"));
			used = std::min(used, bench::count_in(each, "qps_used"));
		}
		summary["receiver_qps"] = receiver_qps;
		summary["qps_used"] = used;
	}
	bench::add_median(summary, "mops", rates);
	bench::add_plain_median(summary, "mops_unverified",
		checked == "bytes" ? bench::numbers_in(repetitions, "mops_unverified") : std::vector<double>{});
	bench::summarize_latency(summary, repetitions, {});
	add_round_trips(summary, repetitions);
	return summary;
}

constexpr std::string_view times[] = {"sender_ns", "counted_ns"};
constexpr bench::Latency latency{};

}  // namespace

const bench::Experiment& experiment() {
	static constexpr bench::Experiment value{.name = "rcud",
		.columns = columns,
		.title = title,
		.times = times,
		.latencies = [](const bench::Json&) { return std::span<const bench::Latency>(&latency, 1); },
		.summarize = summarize,
		.examine_repetition = examine_repetition,
		.examine_row = examine_row,
		.examine_table = examine_table,
		.remark = bench::remark_on_cells};
	return value;
}

bench::Json row_of(
	const Cell& cell, const std::string& device, std::uint32_t mtu, std::uint64_t iters, bench::Json repetitions) {
	bench::Json row = columns_of(cell);
	row.update({{"iters", iters}, {"device", device}, {"mtu", mtu}});
	if (!repetitions.empty()) row.update(summarize(row, repetitions));
	row["repetitions"] = std::move(repetitions);
	return row;
}

}  // namespace verbena::rcud

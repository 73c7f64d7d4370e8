// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/rows.h"

#include "base/statistics.h"
#include "bench/connect/latencies.h"
#include "bench/connect/rules.h"
#include "bench/judge/cells.h"

namespace verbena::connect {
namespace {

using bench::Column;
using bench::Json;
using bench::Kind;
using bench::Role;
using bench::word_of;

// The percentiles of one latency; Markdown shows the first and the third.
#define PERCENTILES(prefix, is_detail)                                   \
	{prefix "p50_us", Kind::number, Role::result, false, false},         \
		{prefix "p90_us", Kind::number, Role::result, false, true},      \
		{prefix "p99_us", Kind::number, Role::result, false, is_detail}, \
		{prefix "p999_us", Kind::number, Role::result, false, true},     \
		{prefix "p9999_us", Kind::number, Role::result, false, true}, {  \
		prefix "max_us", Kind::number, Role::result, false, is_detail    \
	}

// No table of this experiment was published. The columns so marked are those by which it is known.
constexpr Column columns[] = {
	{"experiment", Kind::word, Role::cell, true},
	{"connect", Kind::word, Role::cell, true},
	{"clients", Kind::count, Role::cell, true},
	{"count", Kind::count, Role::setting, true},
	{"connects_per_s", Kind::number, Role::result},
	{"connects_per_s_low", Kind::number, Role::result},
	{"connects_per_s_high", Kind::number, Role::result},
	{"spread", Kind::number, Role::result},
	PERCENTILES("", false),
	PERCENTILES("address_", true),
	PERCENTILES("route_", true),
	PERCENTILES("queue_pair_", true),
	PERCENTILES("connect_", true),
	{"disconnects_per_s", Kind::number, Role::result},
	PERCENTILES("disconnect_", true),
	{"established", Kind::count, Role::result},
	{"disconnected", Kind::count, Role::result},
	{"round_trip_ns", Kind::number, Role::result},
	{"validity", Kind::word, Role::verdict},
	{"reason", Kind::word, Role::verdict},
	{"repetitions", Kind::list, Role::evidence},
	{"apart", Kind::list, Role::evidence},
};
#undef PERCENTILES

Json summarize(const Json&, const Json& repetitions) {
	std::vector<double> connects, disconnects;
	std::uint64_t established = 0, disconnected = 0;
	for (const Json& each : repetitions) {
		connects.push_back(connects_per_s(each));
		disconnects.push_back(disconnects_per_s(each));
		established += bench::count_in(each, "established");
		disconnected += bench::count_in(each, "disconnected");
	}
	Json summary{{"spread", spread(connects)}, {"established", established}, {"disconnected", disconnected}};
	bench::add_median(summary, "connects_per_s", connects);
	bench::add_plain_median(summary, "disconnects_per_s", disconnects);
	bench::add_plain_median(summary, "round_trip_ns", bench::numbers_in(repetitions, "round_trip_ns"));
	for_each_latency([&](const bench::Latency& each) { bench::summarize_latency(summary, repetitions, each); });
	return summary;
}

constexpr std::string_view times[] = {"connect_elapsed_ns", "disconnect_elapsed_ns"};

}  // namespace

const bench::Experiment& experiment() {
	static constexpr bench::Experiment value{.name = "connect",
		.columns = columns,
		.title = title,
		.times = times,
		.latencies = [](const Json&) { return std::span<const bench::Latency>(latencies); },
		.summarize = summarize,
		.examine_repetition = examine_repetition,
		.examine_row = examine_row,
		.examine_table = bench::examine_cell_names,
		.remark = bench::remark_on_cells};
	return value;
}

std::string title(const Json& row) {
	return word_of(row, "clients") + (word_of(row, "clients") == "1" ? " client by " : " clients by ") +
		word_of(row, "connect");
}

Json json_of(std::string_view connect, const Repetition& r) {
	Json json{{"cell", title({{"clients", r.clients}, {"connect", connect}})}, {"clients", r.clients},
		{"count", r.count}, {"connect_elapsed_ns", r.connect_elapsed_ns},
		{"disconnect_elapsed_ns", r.disconnect_elapsed_ns}, {"established", r.account.established},
		{"disconnected", r.account.disconnected}, {"round_trip_ns", nullptr}, {"failure", r.failure}};
	if (r.round_trip_ns) json["round_trip_ns"] = *r.round_trip_ns;
	json["connects_per_s"] = connects_per_s(json);
	json["disconnects_per_s"] = disconnects_per_s(json);
	json["total_sum_ns"] = r.total_sum_ns;
	json["disconnect_sum_ns"] = r.disconnect_sum_ns;
	bench::add_latency(json, r.total, total);
	for (std::size_t i = 0; i < parts.size(); ++i) bench::add_latency(json, r.parts[i], parts[i]);
	bench::add_latency(json, r.disconnect, disconnect);
	return json;
}

Json row_of(std::string_view connect, std::uint32_t clients, std::uint32_t count, Json repetitions) {
	Json row{{"experiment", "connect"}, {"connect", connect}, {"clients", clients}, {"count", count}};
	if (!repetitions.empty()) row.update(summarize(row, repetitions));
	row["repetitions"] = std::move(repetitions);
	return row;
}

}  // namespace verbena::connect

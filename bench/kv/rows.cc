// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/statistics.h"
#include "bench/judge/repetitions.h"
#include "bench/kv/curves.h"
#include "bench/kv/repetition.h"
#include "bench/kv/rules.h"

namespace verbena::kvbench {
namespace {

using bench::Column;
using bench::Json;
using bench::Kind;
using bench::Role;
using bench::word_of;

constexpr Column columns[] = {
	{"op", Kind::word, Role::cell, true},
	{"protocol", Kind::word, Role::cell, true},
	{"value_bytes", Kind::count, Role::cell, true},
	{"gigabytes_per_second", Kind::number, Role::result, true},
	{"system", Kind::word, Role::cell},
	{"varied", Kind::word, Role::cell},
	{"proto", Kind::word, Role::cell},
	{"form", Kind::word, Role::cell},
	{"window", Kind::count, Role::cell},
	{"clients", Kind::count, Role::cell},
	{"stalled", Kind::count, Role::cell},
	{"transport", Kind::word, Role::cell},
	{"rx_depth", Kind::count, Role::cell},
	{"tx_depth", Kind::count, Role::cell, false, true},
	{"eager_max", Kind::count, Role::cell, false, true},
	{"warmup", Kind::count, Role::cell},
	{"iters", Kind::count, Role::cell},
	{"seconds_max", Kind::number, Role::setting, false, true},
	{"reps", Kind::count, Role::result, false, true},
	{"operations", Kind::count, Role::result},
	{"operations_per_second", Kind::number, Role::result},
	{"operations_per_second_low", Kind::number, Role::result, false, true},
	{"operations_per_second_high", Kind::number, Role::result, false, true},
	{"gigabytes_per_second_low", Kind::number, Role::result, false, true},
	{"gigabytes_per_second_high", Kind::number, Role::result, false, true},
	{"gibibytes_per_second", Kind::number, Role::result},
	{"p50_us", Kind::number, Role::result},
	{"p90_us", Kind::number, Role::result, false, true},
	{"p99_us", Kind::number, Role::result},
	{"p999_us", Kind::number, Role::result, false, true},
	{"p9999_us", Kind::number, Role::result, false, true},
	{"max_us", Kind::number, Role::result},
	{"depth", Kind::number, Role::result},
	{"depth_max", Kind::number, Role::result, false, true},
	{"messages_per_operation", Kind::number, Role::result},
	{"one_sided_per_operation", Kind::number, Role::result, false, true},
	{"copied_per_operation", Kind::number, Role::result, false, true},
	{"registrations", Kind::number, Role::result, false, true},
	{"core_to_core_ns", Kind::number, Role::result, false, true},
	{"spread", Kind::number, Role::result},
	{"validity", Kind::word, Role::verdict},
	{"reason", Kind::word, Role::verdict},
	{"repetitions", Kind::list, Role::evidence},
	{"apart", Kind::list, Role::evidence},
};

// The number in this column, or 0.
std::uint64_t count_of(const Json& row, std::string_view column) {
	return static_cast<std::uint64_t>(std::min(1e18, bench::number_of(row, column).value_or(bench::Number{}).value));
}

std::string title(const Json& row) {
	const std::string system = word_of(row, "system"), proto = word_of(row, "proto");
	std::string text = is_rival(row) ? system + ' ' : std::string();
	text += word_of(row, "op") + ' ';
	if (!is_rival(row)) text += (proto.empty() ? word_of(row, "protocol") : proto) + ' ';
	if (word_of(row, "form") == "write") text += "by write ";
	text += bytes_text(count_of(row, "value_bytes"));
	if (bench::has_value(row, "window")) text += " window " + word_of(row, "window");
	if (count_of(row, "clients") > 1) text += fmt::format(", {} clients", word_of(row, "clients"));
	const std::string varied = word_of(row, "varied"), transport = word_of(row, "transport");
	if (!transport.empty() && transport != "rdma") text += ", over " + transport;
	if (varied == "stalled") text += fmt::format(", {} stalled clients", word_of(row, "stalled"));
	else if (!varied.empty())
		text += fmt::format(", {} {}", varied, word_of(row, varied == "depth" ? "rx_depth" : varied));
	return text;
}

template <class Of> void add_median_of(Json& summary, const char* name, const Json& repetitions, Of of) {
	std::vector<double> values;
	for (const Json& each : repetitions) values.push_back(static_cast<double>(of(each)));
	bench::add_plain_median(summary, name, values);
}

// The protocol that the operations really used, which matters for `auto`.
std::string protocol_of(const Json& row, const Json& repetitions) {
	if (is_rival(row)) return word_of(row, "system") == "redis" ? "RESP" : "text";
	std::uint64_t direct = 0, one_sided = 0, all = 0;
	for (const Json& each : repetitions) {
		direct += by_rendezvous(each);
		one_sided += bench::count_in(each, "one_sided");
		all += bench::count_in(each, "operations");
	}
	if (all == 0) return "none";
	if (one_sided > 0) return one_sided == all ? "one-sided" : "mixed";
	return direct == 0 ? "eager" : direct == all ? "rendezvous" : "mixed";
}

void add_protocol_counts(Json& summary, const Json& repetitions) {
	const auto per_operation = [](const char* name) {
		return [name](const Json& each) {
			const auto operations = bench::count_in(each, "operations"), count = bench::count_in(each, name);
			return operations == 0 ? 0.0 : static_cast<double>(count) / static_cast<double>(operations);
		};
	};
	add_median_of(summary, "messages_per_operation", repetitions, per_operation("messages"));
	add_median_of(summary, "one_sided_per_operation", repetitions, per_operation("one_sided"));
	add_median_of(summary, "copied_per_operation", repetitions, per_operation("copied"));
	add_median_of(
		summary, "registrations", repetitions, [](const Json& each) { return bench::count_in(each, "registrations"); });
}

Json summarize(const Json& row, const Json& repetitions) {
	std::vector<double> rates;
	std::uint64_t operations = 0;
	for (const Json& each : repetitions) {
		rates.push_back(per_second(each));
		operations += bench::count_in(each, "operations");
	}
	const double size = bench::number_of(row, "value_bytes").value_or(bench::Number{}).value, giga = size / 1e9;
	Json summary{{"protocol", protocol_of(row, repetitions)}, {"reps", repetitions.size()}, {"operations", operations}};
	bench::add_median(summary, "operations_per_second", rates);
	for (const char* end : {"", "_low", "_high"})
		summary[fmt::format("gigabytes_per_second{}", end)] =
			summary[fmt::format("operations_per_second{}", end)].get<double>() * giga;
	summary["gibibytes_per_second"] = summary["operations_per_second"].get<double>() * size / (1u << 30);
	bench::summarize_latency(summary, repetitions, {});
	add_median_of(summary, "depth", repetitions, mean_depth);
	add_median_of(
		summary, "depth_max", repetitions, [](const Json& each) { return bench::count_in(each, "depth_max"); });
	if (!is_rival(row)) add_protocol_counts(summary, repetitions);
	bench::add_plain_median(summary, "core_to_core_ns", bench::numbers_in(repetitions, "core_to_core_ns"));
	summary["spread"] = spread(rates);
	return summary;
}

constexpr std::string_view times[] = {"elapsed_ns", "latency_sum_ns"};
constexpr bench::Latency latency{};

}  // namespace

const bench::Experiment& experiment() {
	static constexpr bench::Experiment value{.name = "kv",
		.columns = columns,
		.title = title,
		.times = times,
		.latencies = [](const Json&) { return std::span<const bench::Latency>(&latency, 1); },
		.summarize = summarize,
		.examine_repetition = examine_repetition,
		.examine_row = examine_row,
		.examine_table = examine_table,
		.remark = remark_on_protocols};
	return value;
}

Json row_of(const Cell& cell, Json repetitions) {
	const bool ours = cell.system == System::verbena;
	const bool has_form = ours && (cell.proto == Proto::rndv || cell.proto == Proto::automatic);
	const auto only_ours = [&](std::uint32_t value) { return ours ? Json(value) : Json(nullptr); };
	Json row{{"op", name_of(cell.op)}, {"value_bytes", cell.size}, {"system", name_of(cell.system)},
		{"varied", name_of(cell.varied)}, {"proto", ours ? name_of(cell.proto) : ""},
		{"form",
			!has_form                ? ""
				: cell.op == Op::get ? "read"
									 : name_of(cell.form)},
		{"window", cell.window}, {"clients", cell.clients}, {"stalled", cell.stalled},
		{"transport", name_of(cell.transport)}, {"rx_depth", only_ours(cell.rx_depth)},
		{"tx_depth", only_ours(cell.tx_depth)}, {"eager_max", only_ours(cell.eager_max)}, {"warmup", cell.warmup},
		{"iters", cell.iters}, {"seconds_max", cell.seconds_max}};
	if (!ours) row["protocol"] = protocol_of(row, repetitions);
	if (!repetitions.empty()) row.update(summarize(row, repetitions));
	row["repetitions"] = std::move(repetitions);
	return row;
}

std::string cell_name(const Json& row) {
	std::string name;
	for (const Column& column : columns)
		if (column.role == Role::cell && column.name != "protocol" && bench::has_value(row, column.name))
			name += fmt::format("{}{} {}", name.empty() ? "" : ", ", column.name, word_of(row, column.name));
	return name;
}

bool is_rival(const Json& row) {
	const std::string system = word_of(row, "system");
	return system == name_of(System::redis) || system == name_of(System::memcached);
}

std::string bytes_text(std::uint64_t size) {
	if (size >= 1 << 20 && size % (1 << 20) == 0) return fmt::format("{} MiB", size >> 20);
	return size >= 1024 && size % 1024 == 0 ? fmt::format("{} KiB", size >> 10) : fmt::format("{} B", size);
}

}  // namespace verbena::kvbench

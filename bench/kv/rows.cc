#include "bench/kv/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/statistics.h"

namespace verbena::kvbench {
namespace {

// Tolerances: the ratio of the mean depth to the window, and the spread between repetitions.
constexpr double little_tolerance = 1.05, spread_max = 0.5;
constexpr std::uint64_t operations_min = 100;

struct Verdict {
	std::string validity = "valid", reason;
};

Verdict judge(const Cell& cell, std::span<const Run> runs) {
	Verdict verdict;
	// The first reason of the worse verdict stays.
	const auto say = [&](const char* validity, std::string reason) {
		if (verdict.validity == "invalid" || (verdict.validity == "suspect" && std::string_view(validity) == "suspect"))
			return;
		verdict = {validity, std::move(reason)};
	};
	std::vector<double> rates;
	for (std::size_t i = 0; i < runs.size(); ++i) {
		const Run& run = runs[i];
		const std::string which = fmt::format("repetition {}: ", i + 1);
		rates.push_back(run.per_second());
		if (run.failure[0] != '\0') say("invalid", which + run.failure);
		else if (run.wrong > 0) say("invalid", which + fmt::format("{} values differ from those set", run.wrong));
		else if (run.mean_depth() > cell.window * cell.clients * little_tolerance)
			say("invalid",
				which +
					fmt::format("{:.1f} operations under way on average, of {} at most", run.mean_depth(),
						cell.window * cell.clients));
		else if (cell.proto == Proto::rndv && run.leased + run.reads + run.writes < run.operations)
			say("invalid", which + "not all operations used rendezvous");
		else if (cell.proto == Proto::one_sided && run.one_sided < run.operations)
			say("suspect", which + fmt::format("{} GETs had to ask by message", run.operations - run.one_sided));
		else if (run.registrations > 0)
			say("suspect",
				which + fmt::format("{} memory registrations during the timed operations", run.registrations));
		else if (run.operations < operations_min)
			say("suspect", which + fmt::format("only {} operations were timed", run.operations));
	}
	if (spread(rates) > spread_max)
		say("suspect", fmt::format("repetitions differ by {:.0f} % of their median", spread(rates) * 100));
	return verdict;
}

template <class Of> double median_of(std::span<const Run> runs, Of of) {
	std::vector<double> values;
	for (const Run& run : runs) values.push_back(static_cast<double>(of(run)));
	return median(values);
}

double per_operation(const Run& run, std::uint64_t count) {
	return run.operations == 0 ? 0 : static_cast<double>(count) / static_cast<double>(run.operations);
}

// The protocol that the operations really used, which matters for `auto`.
std::string protocol_of(std::span<const Run> runs) {
	std::uint64_t direct = 0, all = 0, one_sided = 0;
	for (const Run& run : runs) {
		direct += std::max({run.leased, run.reads, run.writes});
		one_sided += run.one_sided;
		all += run.operations;
	}
	if (one_sided > 0) return one_sided >= all ? "one-sided" : "mixed";
	return direct == 0 ? "eager" : direct >= all ? "rendezvous" : "mixed";
}

std::string key_of(const Json& row) {
	return fmt::format("{} window {} clients {}", row["op"].get<std::string>(), row["window"].get<std::uint64_t>(),
		row["clients"].get<std::uint64_t>());
}

}  // namespace

std::string bytes_text(std::uint64_t size) {
	if (size >= 1 << 20 && size % (1 << 20) == 0) return fmt::format("{} MiB", size >> 20);
	return size >= 1024 && size % 1024 == 0 ? fmt::format("{} KiB", size >> 10) : fmt::format("{} B", size);
}

Json row_of(const Cell& cell, std::span<const Run> runs, const TrialOptions& options) {
	std::vector<double> rates;
	for (const Run& run : runs) rates.push_back(run.per_second());
	const Interval interval = median_interval(rates);
	const double rate = median(rates);
	const double giga = cell.size / 1e9, gibi = cell.size / 1073741824.0;
	const bool writes = cell.op == Op::set && cell.proto != Proto::eager && cell.form == Form::write;
	Json row{{"experiment", "kv"}, {"op", name_of(cell.op)}, {"proto", name_of(cell.proto)},
		{"protocol", protocol_of(runs)}};
	row["form"] = row["protocol"] == "eager" || row["protocol"] == "one-sided" ? "" : writes ? "write" : "read";
	row["value_bytes"] = cell.size;
	row["window"] = cell.window;
	row["clients"] = cell.clients;
	row["stalled"] = options.stalled;
	row["transport"] = options.tcp ? "tcp" : "rdma";
	row["rx_depth"] = options.settings.rx_depth;
	row["tx_depth"] = options.settings.tx_depth;
	row["eager_max"] = options.settings.eager_max;
	row["warmup"] = cell.warmup;
	row["iters"] = static_cast<std::uint64_t>(median_of(runs, [](const Run& run) { return run.operations; }));
	row["reps"] = runs.size();
	row["operations_per_second"] = rate;
	row["operations_per_second_low"] = interval.low;
	row["operations_per_second_high"] = interval.high;
	row["gigabytes_per_second"] = rate * giga;
	row["gigabytes_per_second_low"] = interval.low * giga;
	row["gigabytes_per_second_high"] = interval.high * giga;
	row["gibibytes_per_second"] = rate * gibi;
	row["p50_us"] = median_of(runs, [](const Run& run) { return run.p50_ns; }) / 1e3;
	row["p99_us"] = median_of(runs, [](const Run& run) { return run.p99_ns; }) / 1e3;
	row["depth"] = median_of(runs, [](const Run& run) { return run.mean_depth(); });
	row["depth_max"] = median_of(runs, [](const Run& run) { return run.depth_max; });
	row["messages_per_operation"] = median_of(runs, [](const Run& run) { return per_operation(run, run.messages); });
	row["one_sided_per_operation"] = median_of(runs, [](const Run& run) { return per_operation(run, run.one_sided); });
	row["copied_per_operation"] = median_of(runs, [](const Run& run) { return per_operation(run, run.copied); });
	row["registrations"] = median_of(runs, [](const Run& run) { return run.registrations; });
	row["spread"] = spread(rates);
	for (const char* name : {"p99_times_alone", "p99_times_alone_low", "p99_times_alone_high"}) row[name] = nullptr;
	const Verdict verdict = judge(cell, runs);
	row["validity"] = verdict.validity;
	row["reason"] = verdict.reason;
	row["repetitions"] = Json::array();
	for (const Run& run : runs)
		row["repetitions"].push_back(
			{{"operations", run.operations}, {"elapsed_ns", run.elapsed_ns}, {"p50_us", run.p50_ns / 1e3},
				{"p99_us", run.p99_ns / 1e3}, {"operations_per_second", run.per_second()}, {"failure", run.failure}});
	return row;
}

void add_stalled(Json& row, std::span<const Run> beside, std::span<const Run> alone) {
	const auto good = [](const Run& run) { return run.failure[0] == '\0' && run.wrong == 0 && run.p99_ns > 0; };
	std::vector<double> times;
	for (std::size_t i = 0; i < std::min(beside.size(), alone.size()); ++i)
		if (good(alone[i]) && good(beside[i]))
			times.push_back(static_cast<double>(beside[i].p99_ns) / static_cast<double>(alone[i].p99_ns));
	if (times.empty()) return;
	const Interval interval = median_interval(times);
	row["p99_times_alone"] = median(times);
	row["p99_times_alone_low"] = interval.low;
	row["p99_times_alone_high"] = interval.high;
}

std::string to_published(std::span<const Json> rows) {
	std::string text;
	for (const std::string op : {"SET", "GET"}) {
		const auto of_op = [&](const Json& row) { return row["op"] == op; };
		if (std::ranges::none_of(rows, of_op)) continue;
		text += fmt::format("{} THROUGHPUT MEASURE\n", op);
		for (const std::string protocol : {"eager", "rendezvous"}) {
			std::string lines;
			for (const Json& row : rows)
				if (of_op(row) && row["protocol"] == protocol)
					lines += fmt::format("{}\t{:.6f}\tGigabytes/Second\n", row["value_bytes"].get<std::uint64_t>(),
						row["gigabytes_per_second"].get<double>());
			if (!lines.empty())
				text += fmt::format("{} Protocol\n{}", protocol == "eager" ? "Eager" : "Rendezvous", lines);
		}
	}
	return text;
}

std::string to_crossover(std::span<const Json> rows) {
	std::map<std::string, std::map<std::uint64_t, std::map<std::string, const Json*>>> groups;
	for (const Json& row : rows) {
		if (row["proto"] == "auto" || row["proto"] == "one-sided" || row["validity"] == "invalid") continue;
		std::string name = row["proto"].get<std::string>();
		if (row["form"] == "write") name += " by write";
		groups[key_of(row)][row["value_bytes"].get<std::uint64_t>()][name] = &row;
	}
	std::string text;
	const auto rate = [](const Json* row, const char* end = "") {
		return (*row)[fmt::format("gigabytes_per_second{}", end)].get<double>();
	};
	for (const auto& [group, sizes] : groups) {
		std::set<std::string> names;
		for (const auto& [size, by_name] : sizes)
			for (const auto& [name, row] : by_name) names.insert(name);
		names.erase("eager");
		for (const std::string& name : names) {
			text += fmt::format("{}: eager against {} (GB/s, with 95 % intervals)\n", group, name);
			// The smallest size from which on rendezvous is faster at every size; 0: none so far.
			std::uint64_t from = 0;
			for (const auto& [size, by_name] : sizes) {
				if (!by_name.contains("eager") || !by_name.contains(name)) continue;
				const Json *const eager = by_name.at("eager"), *const other = by_name.at(name);
				const bool apart =
					rate(eager, "_high") < rate(other, "_low") || rate(other, "_high") < rate(eager, "_low");
				const bool ahead = rate(other) > rate(eager);
				text += fmt::format("  {:>8}  {:9.6f} [{:.6f}, {:.6f}]  {:9.6f} [{:.6f}, {:.6f}]  {}\n",
					bytes_text(size), rate(eager), rate(eager, "_low"), rate(eager, "_high"), rate(other),
					rate(other, "_low"), rate(other, "_high"),
					!apart      ? "no significant difference"
						: ahead ? name
								: "eager");
				if (!ahead) from = 0;
				else if (from == 0 && apart) from = size;
			}
			text += from > 0 ? fmt::format("  {} is ahead from {} on: --eager-max {}\n", name, bytes_text(from), from)
							 : fmt::format("  {} is not ahead at the largest sizes measured\n", name);
		}
	}
	return text;
}

}  // namespace verbena::kvbench

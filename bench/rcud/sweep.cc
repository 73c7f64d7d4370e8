#include "bench/rcud/sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/statistics.h"
#include "bench/validity.h"

namespace verbena::rcud {
namespace {

// A cell, its shape or why it cannot be run, and its repetitions so far.
struct Planned {
	Cell cell;
	std::expected<Shape, std::string> shape;
	std::vector<Repetition> repetitions;
};

std::expected<Shape, std::string> plan(const Cell& cell, const SweepOptions& options, const Limits& limits) {
	if (cell.mode == Mode::ud && cell.op == Op::send && cell.msg > limits.mtu && options.oversize != Oversize::raw)
		return std::unexpected(fmt::format("msg {} > UD max {}", cell.msg, limits.mtu));
	return shape_of(cell, options.settings, limits);
}

bench::Row not_applicable(const Planned& planned, const std::string& device, std::uint32_t mtu, std::uint64_t iters) {
	bench::Row row = make_row(planned.cell, device, mtu, {});
	row.iters = iters;
	row.validity = "n/a";
	row.reason = planned.shape.error();
	return row;
}

// The counts of each repetition, as a JSON array.
std::string counts_of(const std::vector<Repetition>& repetitions) {
	Json counts = Json::array();
	for (const Repetition& each : repetitions) {
		Json one = each.delivery;
		one.update({{"iters", each.iters}, {"posted", each.posted}, {"completed", each.completed},
			{"mops", each.delivery.mops()}, {"failure", each.failure}});
		one["p50_us"] = static_cast<double>(each.latency_ns.quantile(0.5)) / 1e3;
		one["p99_us"] = static_cast<double>(each.latency_ns.quantile(0.99)) / 1e3;
		one["rtt_before_ns"] = each.rtt_before_ns ? Json(*each.rtt_before_ns) : Json(nullptr);
		one["rtt_after_ns"] = each.rtt_after_ns ? Json(*each.rtt_after_ns) : Json(nullptr);
		counts.push_back(std::move(one));
	}
	return counts.dump();
}

void fill_round_trips(bench::Row& row, const std::vector<Repetition>& repetitions) {
	std::vector<double> before, after;
	for (const Repetition& each : repetitions) {
		if (each.rtt_before_ns) before.push_back(*each.rtt_before_ns);
		if (each.rtt_after_ns) after.push_back(*each.rtt_after_ns);
		for (const auto& took : {each.rtt_before_ns, each.rtt_after_ns}) {
			if (!took) continue;
			if (row.rtt_class.empty()) row.rtt_class = class_of(*took);
			else if (row.rtt_class != class_of(*took)) row.rtt_class = "mixed";
		}
	}
	if (!before.empty()) row.rtt_before_ns = median(before);
	if (!after.empty()) row.rtt_after_ns = median(after);
}

}  // namespace

std::vector<Cell> cells_of(const SweepOptions& options, std::uint32_t mtu) {
	std::vector<Cell> cells;
	for (const Op op : options.ops)
		for (const WindowMode window_mode : options.window_modes)
			for (const std::uint64_t window : options.windows)
				for (const std::uint64_t msg : options.sizes)
					for (Mode mode : options.modes) {
						if (mode == Mode::ud && op == Op::send && options.oversize == Oversize::segment && msg > mtu)
							mode = Mode::ud_segmented;
						cells.push_back({.mode = mode,
							.op = op,
							.window_mode = window_mode,
							.msg = static_cast<std::uint32_t>(msg),
							.window = static_cast<std::uint32_t>(window)});
					}
	return cells;
}

bench::Row make_row(
	const Cell& cell, const std::string& device, std::uint32_t mtu, const std::vector<Repetition>& repetitions) {
	bench::Row row;
	row.mode = name_of(cell.mode);
	row.msg = cell.msg;
	row.window = cell.window;
	row.op = name_of(cell.op);
	row.window_mode = name_of(cell.window_mode);
	row.device = device;
	row.mtu = mtu;
	if (repetitions.empty()) return row;

	Delivery all;
	Histogram latency;
	std::vector<double> rates;
	row.posted = row.completed = 0;
	std::uint64_t wanted = 0;
	for (const Repetition& each : repetitions) {
		row.iters = std::max(row.iters, each.iters);
		wanted += each.iters;
		*row.posted += each.posted;
		*row.completed += each.completed;
		all.delivered += each.delivery.delivered;
		all.duplicated += each.delivery.duplicated;
		all.reordered += each.delivery.reordered;
		all.corrupt += each.delivery.corrupt;
		latency.merge(each.latency_ns);
		rates.push_back(each.failure.empty() ? each.delivery.mops() : 0);
		row.repetitions += (row.repetitions.empty() ? "" : ";") + fmt::format("{}", rates.back());
		if (!each.failure.empty() && row.reason.empty()) {
			row.validity = "invalid";
			row.reason = fmt::format("repetition {}: {} ({} posted, {} known to be delivered)", rates.size(),
				each.failure, each.posted, each.delivery.delivered);
		}
	}
	row.delivered = all.delivered;
	row.lost = *row.posted - std::min(*row.posted, all.delivered);
	row.duplicated = all.duplicated;
	row.reordered = all.reordered;
	row.mops = median(rates);
	row.gib = bench::gib_of(*row.mops, row.msg);
	const Interval interval = median_interval(rates);
	row.mops_low = interval.low;
	row.mops_high = interval.high;
	row.spread = spread(rates);
	if (latency.count() > 0) {
		row.p50_us = static_cast<double>(latency.quantile(0.5)) / 1e3;
		row.p99_us = static_cast<double>(latency.quantile(0.99)) / 1e3;
	}
	fill_round_trips(row, repetitions);
	row.repetition_counts = counts_of(repetitions);

	if (row.validity.empty() && all.corrupt > 0) {
		row.validity = "invalid";
		row.reason = fmt::format("{} messages arrived damaged", all.corrupt);
	} else if (row.validity.empty() && all.delivered > 0 && std::ranges::find(rates, 0.0) != rates.end()) {
		row.validity = "invalid";
		row.reason = "a repetition delivered too few messages to be timed";
	} else if (row.validity.empty() && *row.posted < wanted) {
		row.validity = "suspect";
		row.reason = fmt::format("ended after {} of {} messages, because credits were lost", *row.posted, wanted);
	}
	return row;
}

SweepResult sweep(Client& client, const SweepOptions& options, const std::string& device,
	const std::function<void(const Progress&)>& progress) {
	const Limits limits = client.limits();
	std::vector<Planned> plans;
	for (const Cell& cell : cells_of(options, limits.mtu)) plans.push_back({cell, plan(cell, options, limits), {}});

	SweepResult result;
	Progress where;
	where.all = options.settings.reps * static_cast<std::size_t>(std::ranges::count_if(plans, [](const Planned& each) {
		return each.shape.has_value();
	}));
	bool lost = false;
	for (std::uint32_t repetition = 0; repetition < options.settings.reps && !lost; ++repetition) {
		for (Planned& each : plans) {
			if (!each.shape || (repetition > 0 && !each.repetitions.back().failure.empty())) continue;
			where.cell = &each.cell;
			where.repetition = repetition;
			progress(where);
			Repetition& measured = each.repetitions.emplace_back();
			try {
				client.measure(each.cell, *each.shape, options.settings, measured);
			} catch (const Failure& failure) {
				if (measured.failure.empty()) measured.failure = failure.what();
				lost = true;
			}
			result.broken |= !measured.failure.empty();
			for (const auto& took : {measured.rtt_before_ns, measured.rtt_after_ns})
				if (took) result.round_trips_ns.push_back(*took);
			++where.done;
			if (lost) break;
		}
	}

	for (const Planned& each : plans) {
		if (!each.shape) {
			result.rows.push_back(not_applicable(each, device, limits.mtu, options.settings.iters));
		} else if (!each.repetitions.empty()) {
			result.rows.push_back(make_row(each.cell, device, limits.mtu, each.repetitions));
		}
	}
	bench::judge(result.rows);
	result.impossible = std::ranges::any_of(result.rows, [&](const bench::Row& row) {
		return row.validity == "invalid" &&
			!(options.oversize == Oversize::raw && row.mode == "UD" && row.msg > limits.mtu);
	});
	return result;
}

}  // namespace verbena::rcud

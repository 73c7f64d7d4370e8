#include "bench/rcud/sweep.h"

#include <fmt/format.h>

#include <algorithm>

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
		if (each.shape && each.repetitions.empty()) continue;
		bench::Json repetitions = bench::Json::array();
		for (const Repetition& one : each.repetitions) repetitions.push_back(json_of(each.cell, one));
		bench::Json& row = result.rows.emplace_back(
			row_of(each.cell, device, limits.mtu, options.settings.iters, std::move(repetitions)));
		if (!each.shape) row["reason"] = each.shape.error();
	}
	return result;
}

}  // namespace verbena::rcud

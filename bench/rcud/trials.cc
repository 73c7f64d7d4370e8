// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/trials.h"

#include <fmt/format.h>

#include "bench/rcud/fan_in.h"
#include "bench/rcud/rows.h"

namespace verbena::rcud {
namespace {

std::expected<Shape, std::string> plan(
	const Cell& cell, const Cells& cells, const Settings& settings, const Limits& limits) {
	if (cell.mode == Mode::ud && cell.op == Op::send && cell.msg > limits.mtu && cells.oversize != Oversize::raw)
		return std::unexpected(fmt::format("msg {} > UD max {}", cell.msg, limits.mtu));
	return cell.qps > 0 ? fan_in_shape_of(cell, settings, limits) : shape_of(cell, settings, limits);
}

class CellTrial : public bench::Trial {
public:
	CellTrial(Client& client, const Cell& cell, std::expected<Shape, std::string> shape, const Settings& settings,
		std::string device)
		: client_(client), cell_(cell), shape_(std::move(shape)), settings_(settings), device_(std::move(device)) {}

	bool can_run() const override { return shape_.has_value(); }

	bench::Measured measure(const bench::ShowStep&) override {
		Repetition repetition;
		bool lost = false;
		try {
			client_.measure(cell_, *shape_, settings_, repetition);
		} catch (const Failure& failure) {
			if (repetition.failure.empty()) repetition.failure = failure.what();
			lost = true;
		}
		return {.repetition = json_of(cell_, repetition), .failed = !repetition.failure.empty(), .far_end_lost = lost};
	}

	bench::Json row(bench::Json repetitions) const override {
		bench::Json row = row_of(cell_, device_, client_.limits().mtu, settings_.iters, std::move(repetitions));
		if (!shape_) row["reason"] = shape_.error();
		return row;
	}

private:
	Client& client_;
	const Cell cell_;
	const std::expected<Shape, std::string> shape_;  // or why the cell cannot be run
	const Settings& settings_;
	const std::string device_;
};

// Queue pairs and their senders; 0 of one sender is a cell without them.
std::vector<std::pair<std::uint32_t, std::uint32_t>> queue_pairs_of(const Cells& options) {
	if (options.queue_pairs.empty()) return {{0, 1}};
	std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
	for (const std::uint64_t senders : options.senders)
		for (const std::uint64_t qps : options.queue_pairs)
			pairs.emplace_back(static_cast<std::uint32_t>(qps), static_cast<std::uint32_t>(senders));
	return pairs;
}

}  // namespace

std::vector<Cell> cells_of(const Cells& options, std::uint32_t mtu) {
	std::vector<Cell> cells;
	for (const Op op : options.ops)
		for (const WindowMode window_mode : options.window_modes)
			for (const std::uint64_t window : options.windows)
				for (const std::uint64_t msg : options.sizes)
					for (const auto& [qps, senders] : queue_pairs_of(options))
						for (const Mode mode : options.modes) {
							const bool is_cut = mode == Mode::ud && op == Op::send && qps == 0 &&
								options.oversize == Oversize::segment && msg > mtu;
							cells.push_back({.mode = is_cut ? Mode::ud_segmented : mode,
								.op = op,
								.window_mode = window_mode,
								.msg = static_cast<std::uint32_t>(msg),
								.window = static_cast<std::uint32_t>(window),
								.qps = qps,
								.senders = senders});
						}
	return cells;
}

std::vector<std::unique_ptr<bench::Trial>> trials_of(
	Client& client, const Cells& cells, const Settings& settings, const std::string& device) {
	const Limits limits = client.limits();
	std::vector<std::unique_ptr<bench::Trial>> trials;
	for (const Cell& cell : cells_of(cells, limits.mtu))
		trials.push_back(
			std::make_unique<CellTrial>(client, cell, plan(cell, cells, settings, limits), settings, device));
	return trials;
}

}  // namespace verbena::rcud

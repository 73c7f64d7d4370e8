// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/trials.h"

#include <algorithm>

#include "bench/rpc/labels.h"
#include "bench/rpc/repetition.h"
#include "bench/rpc/rows.h"

namespace verbena::rpcbench {
namespace {

using Numbers = std::vector<std::uint64_t>;

// The sizes and concurrencies at which a behaviour matters.
struct Ablation {
	Behaviour behaviour;
	Numbers sizes, concurrency;
};
const Ablation ablations[] = {
	{Behaviour::none, {}, {}},
	{Behaviour::inline_data, {16, 64, 128, 192}, {1, 64}},
	{Behaviour::coalescing, {128}, {1, 16, 256}},
	{Behaviour::send_queue, {256 << 10, 1 << 20, 8 << 20}, {1, 4, 16}},
	{Behaviour::pool, {32 << 10, 256 << 10, 1 << 20}, {1, 16}},
	{Behaviour::connection_pool, {128}, {1, 16}},
};

CellOptions cell_of(const Matrix& matrix, bool over_rdma, std::uint64_t size, std::uint64_t concurrency) {
	CellOptions cell = matrix.options;
	cell.rdma = over_rdma;
	cell.size = size;
	cell.concurrency = static_cast<std::uint32_t>(concurrency);
	cell.connections = std::min(cell.connections, cell.concurrency);
	cell.per_connection &= over_rdma;
	cell.registered &= over_rdma;
	return cell;
}

// The cells of one size and concurrency: ours and the other systems', or with and without.
std::vector<CellOptions> variants_of(const Matrix& matrix, CellOptions cell, Behaviour ablation) {
	std::vector<CellOptions> cells{cell};
	if (ablation != Behaviour::none) {
		cells.front().ablation = ablation;
		cells.push_back(cells.front());
		cells.back().without = true;
	} else if (!cell.rdma) {
		for (const System other : matrix.others) {
			cell.system = other;
			cells.push_back(cell);
		}
	}
	return cells;
}

class CallTrial : public bench::Trial {
public:
	explicit CallTrial(const CellOptions& cell) : cell_(cell) {}

	bool can_run() const override { return true; }

	bench::Measured measure(const bench::ShowStep&) override {
		const auto run = run_cell(cell_);
		return {.repetition = json_of(cell_, run), .failed = !run};
	}

	bench::Json row(bench::Json repetitions) const override { return row_of(cell_, std::move(repetitions)); }

private:
	const CellOptions cell_;
};

}  // namespace

std::vector<CellOptions> cells_of(const Matrix& matrix) {
	std::vector<CellOptions> cells;
	std::vector<std::string> titles;
	const auto add = [&](const CellOptions& cell) {
		std::string name = title(columns_of(cell));
		if (std::ranges::find(titles, name) != titles.end()) return;
		titles.push_back(std::move(name));
		cells.push_back(cell);
	};
	for (const Behaviour ablation : matrix.ablations.empty() ? std::vector{Behaviour::none} : matrix.ablations) {
		const Ablation& own = *std::ranges::find(ablations, ablation, &Ablation::behaviour);
		for (const bool over_rdma : matrix.over_rdma) {
			if (is_of_rdma(ablation) && !over_rdma) continue;
			for (const std::uint64_t size : matrix.sizes.empty() ? own.sizes : matrix.sizes)
				for (const std::uint64_t concurrency :
					matrix.concurrency.empty() ? own.concurrency : matrix.concurrency)
					for (const CellOptions& cell :
						variants_of(matrix, cell_of(matrix, over_rdma, size, concurrency), ablation))
						add(cell);
		}
	}
	return cells;
}

std::vector<std::unique_ptr<bench::Trial>> trials_of(const std::vector<CellOptions>& cells) {
	std::vector<std::unique_ptr<bench::Trial>> trials;
	for (const CellOptions& cell : cells) trials.push_back(std::make_unique<CallTrial>(cell));
	return trials;
}

}  // namespace verbena::rpcbench

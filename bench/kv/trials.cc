// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/trials.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/far_end/failure.h"
#include "bench/kv/repetition.h"
#include "bench/kv/rival.h"
#include "bench/kv/rows.h"
#include "bench/kv/worker.h"
#include "lib/kv/index.h"

namespace verbena::kvbench {
namespace {

class CellTrial : public bench::Trial {
public:
	CellTrial(Sessions& sessions, const Cell& cell) : sessions_(sessions), cell_(cell) {}

	bool can_run() const override { return true; }

	bench::Measured measure(const bench::ShowStep& show) override {
		Repetition run;
		try {
			if (cell_.varied == Varied::stalled) show("starting the server and its clients");
			run = sessions_.of(cell_).run(cell_);
		} catch (const bench::Failure& failure) {
			fail(run, failure.what());
		}
		const bool failed = run.failure[0] != '\0';
		if (failed) sessions_.end(cell_);
		return {.repetition = json_of(cell_, cell_name(row(bench::Json::array())), run), .failed = failed};
	}

	bench::Json row(bench::Json repetitions) const override { return row_of(cell_, std::move(repetitions)); }

private:
	Sessions& sessions_;
	const Cell cell_;
};

class RivalTrial : public bench::Trial {
public:
	RivalTrial(Sessions& sessions, const Cell& cell) : sessions_(sessions), cell_(cell) {}

	bool can_run() const override { return std::uint64_t{cell_.size} * cell_.window <= rival_window_bytes_max; }

	bench::Measured measure(const bench::ShowStep&) override {
		Repetition run;
		try {
			run = run_rival(sessions_.rival_of(cell_), cell_, ++runs_);
		} catch (const bench::Failure& failure) {
			fail(run, failure.what());
		}
		return {
			.repetition = json_of(cell_, cell_name(row(bench::Json::array())), run), .failed = run.failure[0] != '\0'};
	}

	bench::Json row(bench::Json repetitions) const override {
		bench::Json row = row_of(cell_, std::move(repetitions));
		if (!can_run())
			row["reason"] = fmt::format(
				"the client would need more than {} for a window of requests", bytes_text(rival_window_bytes_max));
		return row;
	}

private:
	Sessions& sessions_;
	const Cell cell_;
	std::uint64_t runs_ = 0;
};

// The cells of our own system with these parameters.
void add_cells(const Cells& options, const Cell& common, std::vector<Cell>& cells) {
	for (const Op op : options.ops)
		for (const std::uint64_t window : options.windows)
			for (const Proto proto : options.protos)
				for (const Form form : options.forms) {
					if (form != options.forms.front() &&
						(op == Op::get || proto == Proto::eager || proto == Proto::one_sided))
						continue;
					if (proto == Proto::one_sided && op == Op::set) continue;
					for (const std::uint64_t size : options.sizes) {
						Cell& cell = cells.emplace_back(common);
						cell.op = op;
						cell.proto = proto;
						cell.form = form;
						cell.size = static_cast<std::uint32_t>(size);
						cell.window = static_cast<std::uint32_t>(window);
					}
				}
}

// Varies one parameter while the others keep their values.
void add_sweep(const Cells& options, Varied varied, std::vector<Cell>& cells) {
	const std::vector<std::uint32_t> values = varied == Varied::depth
		? std::vector<std::uint32_t>{16, 64, 256, 1024, 6000}
		: varied == Varied::warmup ? std::vector<std::uint32_t>{0, 1, 10, 50, 500, 5000}
								   : std::vector<std::uint32_t>{100, 1000, 10'000, 60'000};
	for (const std::uint32_t value : values) {
		Cell common = options.common;
		common.varied = varied;
		if (varied == Varied::depth) common.rx_depth = common.tx_depth = value;
		else (varied == Varied::warmup ? common.warmup : common.iters) = value;
		add_cells(options, common, cells);
	}
}

// Each cell without and with stalled clients, one after the other.
void add_beside_stalled(const Cells& options, std::vector<Cell>& cells) {
	Cell common = options.common;
	common.varied = Varied::stalled;
	std::vector<Cell> alone;
	add_cells(options, common, alone);
	for (const Cell& cell : alone) {
		cells.push_back(cell);
		cells.emplace_back(cell).stalled = options.stalled;
	}
}

void add_rivals(const Cells& options, std::vector<Cell>& cells) {
	for (const System system : options.rivals)
		for (const Transport transport : {Transport::unix_socket, Transport::tcp})
			for (const Op op : options.ops)
				for (const std::uint64_t window : options.windows)
					for (const std::uint64_t size : options.sizes) {
						Cell& cell = cells.emplace_back(options.common);
						cell.system = system;
						cell.op = op;
						cell.transport = transport;
						cell.size = static_cast<std::uint32_t>(size);
						cell.window = static_cast<std::uint32_t>(window);
						cell.clients = 1;
					}
}

}  // namespace

std::vector<Cell> cells_of(const Cells& options) {
	std::vector<Cell> cells;
	if (options.stalled > 0) add_beside_stalled(options, cells);
	else if (options.sensitivity.empty()) add_cells(options, options.common, cells);
	for (const Varied varied : options.sensitivity) add_sweep(options, varied, cells);
	add_rivals(options, cells);
	return cells;
}

// Each client has 16 values, twice over because old copies stay until they are overwritten, and a
// third more because a quarter of the memory is the index. So a value takes at most 1/32 of the
// records' part; the store allows 1/8.
std::size_t one_sided_bytes(const Cells& options) {
	if (std::ranges::find(options.protos, Proto::one_sided) == options.protos.end()) return 0;
	const std::uint64_t largest = std::ranges::max(options.sizes) + kv::key_max;
	return std::clamp<std::uint64_t>(largest * 32 * options.common.clients * 4 / 3, 16 << 20, kv::Index::bytes_max);
}

std::vector<std::unique_ptr<bench::Trial>> trials_of(const Cells& options, Sessions& sessions) {
	std::vector<std::unique_ptr<bench::Trial>> trials;
	for (const Cell& cell : cells_of(options)) {
		if (cell.system == System::verbena) trials.push_back(std::make_unique<CellTrial>(sessions, cell));
		else trials.push_back(std::make_unique<RivalTrial>(sessions, cell));
	}
	return trials;
}

}  // namespace verbena::kvbench

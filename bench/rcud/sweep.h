// The sweep: every cell of modes x ops x window modes x windows x sizes, its repetitions interleaved with the others',
// and the rows that come of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/rcud/session.h"
#include "bench/row.h"

namespace verbena::rcud {

// What becomes of a UD message that is larger than the MTU.
enum class Oversize : std::uint8_t { not_applicable, segment, raw };

struct SweepOptions {
	std::vector<Mode> modes{Mode::rc, Mode::ud};
	std::vector<Op> ops{Op::send};
	std::vector<WindowMode> window_modes{WindowMode::local, WindowMode::credit};
	std::vector<std::uint64_t> sizes;
	std::vector<std::uint64_t> windows;
	Oversize oversize = Oversize::not_applicable;
	Settings settings;
};

// Where the sweep is; called before each repetition.
struct Progress {
	std::size_t done = 0, all = 0;  // repetitions
	const Cell* cell = nullptr;
	std::uint32_t repetition = 0;
};

struct SweepResult {
	std::vector<bench::Row> rows;  // judged, in the order of the cells
	bool broken = false;           // something could not be measured: the rows say what
	bool impossible = false;       // an invalid row that was not asked for (raw oversize is)
	std::vector<double> round_trips_ns;
};

SweepResult sweep(Client& client, const SweepOptions& options, const std::string& device,
	const std::function<void(const Progress&)>& progress);

// The row of a cell's repetitions: sums of the counts, the median of the rates.
bench::Row make_row(
	const Cell& cell, const std::string& device, std::uint32_t mtu, const std::vector<Repetition>& repetitions);

// All cells in table order: by window mode, window and size, with RC beside UD. Oversize UD cells become UD-seg where
// asked.
std::vector<Cell> cells_of(const SweepOptions& options, std::uint32_t mtu);

}  // namespace verbena::rcud

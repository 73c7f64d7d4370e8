// The sweep: runs every cell of modes x ops x window modes x windows x sizes, the repetitions of
// all cells interleaved, and makes a row of each cell.
//
// Threads: one thread.
// Errors: a cell that fails gets an invalid row that says why; the sweep ends early only if the
//   peer is lost.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/rcud/rows.h"
#include "bench/rcud/session.h"

namespace verbena::rcud {

// The treatment of UD messages that are larger than the MTU: their row is n/a, they are cut into
// datagrams (UD-seg), or they are posted as they are.
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

// The position of the sweep, reported before each repetition.
struct Progress {
	std::size_t done = 0, all = 0;  // repetitions of all cells
	const Cell* cell = nullptr;     // dangles after the call
	std::uint32_t repetition = 0;
};

struct SweepResult {
	std::vector<bench::Json> rows;  // in the order of the cells; not judged yet
	bool broken = false;           // a cell could not be measured; its row says why
	std::vector<double> round_trips_ns;
};

// `device` is the name for the rows.
SweepResult sweep(Client& client, const SweepOptions& options, const std::string& device,
	const std::function<void(const Progress&)>& progress);

// All cells in the order of the table: by operation, window mode, window and size, RC beside UD.
// With Oversize::segment, UD cells above the MTU become UD-seg.
std::vector<Cell> cells_of(const SweepOptions& options, std::uint32_t mtu);

}  // namespace verbena::rcud

// SPDX-License-Identifier: Apache-2.0
// The cells of this experiment, as trials of a sweep (bench/sweep).
//
// Threads: one thread. A trial forks (cell.h), so no other thread may be running.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/rpc/cell.h"
#include "bench/sweep/sweep.h"

namespace verbena::rpcbench {

struct Matrix {
	// An ablation uses the values at which its behaviour matters if these are empty.
	std::vector<std::uint64_t> sizes, concurrency;
	std::vector<bool> over_rdma{false, true};
	std::vector<System> others;        // measured too, in the cells over TCP
	std::vector<Behaviour> ablations;  // if not empty: each cell with and without each of them
	// The options that all cells have in common. A cell has at most one connection for each caller.
	CellOptions options;
};

// All cells in the order of the table, none twice: by transport, size and concurrency, ours before
// those of other systems. Empty if the ablations exist only over RDMA, and there is none.
std::vector<CellOptions> cells_of(const Matrix& matrix);

std::vector<std::unique_ptr<bench::Trial>> trials_of(const std::vector<CellOptions>& cells);

}  // namespace verbena::rpcbench

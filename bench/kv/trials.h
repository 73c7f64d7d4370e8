// SPDX-License-Identifier: Apache-2.0
// The cells of this experiment, as trials of a sweep (bench/sweep).
//
// Threads: one thread.
#pragma once

#include <memory>
#include <vector>

#include "bench/kv/sessions.h"
#include "bench/sweep/sweep.h"

namespace verbena::kvbench {

struct Cells {
	std::vector<Op> ops{Op::set, Op::get};
	std::vector<Proto> protos;
	std::vector<Form> forms{Form::read};
	std::vector<std::uint64_t> sizes, windows;
	// Varies these, one at a time, and measures nothing else.
	std::vector<Varied> sensitivity;
	// Measures each cell without and with this number of stalled clients, in turn.
	std::uint32_t stalled = 0;
	std::vector<System> rivals;  // each over a Unix socket and over TCP
	Cell common;  // the parameters that all cells share
};

// All cells in the order of the table: by operation, window, protocol, form and size; then those of
// other systems. A SET is not one-sided, and the form means something for a SET by rendezvous only.
std::vector<Cell> cells_of(const Cells& options);

// The memory for values that clients read by RDMA READ alone; 0 if no cell does so.
std::size_t one_sided_bytes(const Cells& options);

// One trial for each cell. `sessions` must outlive the trials.
std::vector<std::unique_ptr<bench::Trial>> trials_of(const Cells& options, Sessions& sessions);

}  // namespace verbena::kvbench

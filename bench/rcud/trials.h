// SPDX-License-Identifier: Apache-2.0
// The cells of this experiment, as trials of a sweep (bench/sweep): modes x ops x window modes x
// windows x sizes x queue pairs x senders.
//
// Threads: one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/rcud/session.h"
#include "bench/sweep/sweep.h"

namespace verbena::rcud {

// The treatment of UD messages that are larger than the MTU: their row is n/a, they are cut into
// datagrams (UD-seg), or they are posted as they are.
enum class Oversize : std::uint8_t { not_applicable, segment, raw };

struct Cells {
	std::vector<Mode> modes{Mode::rc, Mode::ud};
	std::vector<Op> ops{Op::send};
	std::vector<WindowMode> window_modes{WindowMode::local, WindowMode::credit};
	std::vector<std::uint64_t> sizes;
	std::vector<std::uint64_t> windows;
	// Queue pairs that send in turn, and the senders that share them (fan_in.h); empty: one queue
	// pair that sends alone.
	std::vector<std::uint64_t> queue_pairs;
	std::vector<std::uint64_t> senders{1};
	Oversize oversize = Oversize::not_applicable;
};

// All cells in the order of the table: by operation, window mode, window, size, senders and queue
// pairs, RC beside UD.
// With Oversize::segment, UD cells above the MTU become UD-seg.
std::vector<Cell> cells_of(const Cells& options, std::uint32_t mtu);

// One trial for each cell. `device` is the name for the rows; the client and the settings must
// outlive the trials.
std::vector<std::unique_ptr<bench::Trial>> trials_of(
	Client& client, const Cells& cells, const Settings& settings, const std::string& device);

}  // namespace verbena::rcud

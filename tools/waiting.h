// SPDX-License-Identifier: Apache-2.0
// Why the queue pairs of a process do not go on, from its own status and that of its peers on this
// host.
//
// Threads: pure functions.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "nic/status/status.h"

namespace verbena::tools {

// Two looks at the processes of a host, the second one a moment later.
struct Looks {
	std::span<const status::Process> before, now;
	// Whether a signal or a debugger has stopped the process.
	std::function<bool(std::uint32_t pid)> is_stopped;
};

// One sentence for each queue pair of the process that did nothing between the two looks: the
// reason, the process at the other end, and what to do.
std::vector<std::string> why_waiting(std::uint32_t pid, const Looks&);

}  // namespace verbena::tools

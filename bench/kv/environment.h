// SPDX-License-Identifier: Apache-2.0
// The environment of a table of this experiment.
//
// Threads: one thread.
#pragma once

#include <span>
#include <string>

#include "bench/kv/trials.h"

namespace verbena::kvbench {

// `rows` are those measured so far. The sessions have started a server.
bench::Environment environment_of(
	const Cells& cells, Sessions& sessions, std::span<const bench::Json> rows, const std::string& command_line);

}  // namespace verbena::kvbench

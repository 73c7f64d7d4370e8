// SPDX-License-Identifier: Apache-2.0
// The environment of a table of this experiment.
//
// Threads: pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "bench/rcud/protocol.h"
#include "bench/table/row.h"

namespace verbena::rcud {

struct Circumstances {
	std::string peer_host;  // empty: two processes of this host
	std::optional<std::pair<int, int>> cores;  // those to which the two are pinned
	std::string command_line;
};

bench::Environment environment_of(const lib::OpenDevice& device, const PeerInfo& peer, const Settings& settings,
	const Circumstances& circumstances, std::span<const bench::Json> rows);

}  // namespace verbena::rcud

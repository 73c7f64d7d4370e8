// SPDX-License-Identifier: Apache-2.0
// The environment of a table of this experiment.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "bench/table/row.h"
#include "lib/verbs/device.h"

namespace verbena::connect {

struct Circumstances {
	std::string peer_host;  // empty: two processes of this host
	std::string command_line;
};

// `connect` is the way to connect, and `count` the connections of a repetition.
bench::Environment environment_of(const lib::OpenDevice& device, const std::string& connect, std::uint32_t count,
	const Circumstances& circumstances, std::span<const bench::Json> rows);

}  // namespace verbena::connect

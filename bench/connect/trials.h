// SPDX-License-Identifier: Apache-2.0
// The cells of this experiment, as trials of a sweep (bench/sweep): one for each number of clients.
//
// Threads: one thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/connect/session.h"
#include "bench/sweep/sweep.h"

namespace verbena::connect {

// `connect` is the way to connect, for the rows. Client and connector must outlive the trials.
std::vector<std::unique_ptr<bench::Trial>> trials_of(Client& client, Connector& connector, const std::string& connect,
	std::span<const std::uint64_t> clients, std::uint32_t count);

}  // namespace verbena::connect

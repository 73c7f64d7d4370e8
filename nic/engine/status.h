// SPDX-License-Identifier: Apache-2.0
// The queue pairs of this process, as it describes them to those who ask (nic/status/status.h).
//
// Threads: any thread that does not hold the engine's lock.
#pragma once

#include <vector>

#include "nic/engine/engine.h"
#include "nic/status/status.h"

namespace verbena::engine {

std::vector<status::QueuePair> queue_pairs_of(Engine&);

}  // namespace verbena::engine

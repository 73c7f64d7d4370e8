// SPDX-License-Identifier: Apache-2.0
// The program's side of direct operations (docs/decisions/0036): what peers may do in its memory
// without a call of this process, and the end of such a right.
//
// Threads: publish() under the engine's lock. The others from any thread, without that lock; they
//   return when no peer can write under the right that was withdrawn before.
// Errors: none. Where something cannot be published, operations on it take the ring.
#pragma once

#include "nic/verbs/objects.h"

namespace verbena::verbs {

// Publishes what the region's key permits to peers, and where they find the memory.
void publish(transport::Context&, const SoftMr&);

// To call after the region's key was withdrawn or its rights changed, before its memory can be used
// for something else. A peer that does not end its operation keeps the old pages, and the memory
// gets new ones with the same contents.
void await_peers_of_region(engine::Engine&, const SoftMr&);
// The same after a queue pair stopped taking requests.
void await_peers_of_queue_pair(engine::Engine&, std::uint32_t qpn);

}  // namespace verbena::verbs

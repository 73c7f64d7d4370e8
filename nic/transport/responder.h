// SPDX-License-Identifier: Apache-2.0
// The responder: checks, executes and answers the requests for a connected queue pair (IBA 9.7.4
// and 9.7.5 for RC, 9.8.2 for UC).
//
// handle_request() never needs room for output. The answer becomes state of the QP (answers.h). UC
// drops the packets that it cannot accept.
//
// Threads: under the engine's lock.
// Errors: the peer is untrusted. A request that breaks a rule gets a NAK (RC) or is dropped (UC)
//   and counted in Context::counters; after a NAK other than RNR and sequence error the QP is in
//   the error state (IBA 9.9).
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// Handles one request slot for an RC or UC queue pair. `payload` holds slot.length bytes, and may
// be shared memory: it is read once.
void handle_request(Context&, QueuePair&, const wire::Slot& slot, const std::byte* payload);

}  // namespace verbena::transport

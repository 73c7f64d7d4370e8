// The responder: checks, executes and answers the requests for a connected queue pair (IBA 9.7.4
// and 9.7.5 for RC, 9.8.2 for UC).
//
// handle_request() never needs room for output. The answer becomes state of the QP, and
// send_responses() sends it when the outlet has room. RC answers with ACKs, NAKs and responses; UC
// drops the packets that it cannot accept.
//
// Threads: under the engine's lock.
// Errors: the peer is untrusted. A request that breaks a rule gets a NAK (RC) or is dropped (UC)
//   and counted in Context::counters; after a NAK other than RNR and sequence error the QP is in
//   the error state (IBA 9.9).
#pragma once

#include <optional>

#include "nic/transport/context.h"

namespace verbena::transport {

// Handles one request slot for an RC or UC queue pair. `payload` holds slot.length bytes, and may
// be shared memory: it is read once.
void handle_request(Context&, QueuePair&, const wire::Slot& slot, const std::byte* payload);

// Sends the pending responses and the pending ACK or NAK. Returns false if the outlet is full; the
// rest stays pending, and the caller tries again in a later pass.
bool send_responses(Context&, QueuePair&);

// For a queue pair that is about to be destroyed: the ACK that send_responses() found no room for,
// because its program may have seen the message already. Nothing between hosts, where the peer's
// timer repeats the request, and nothing if responses are pending.
std::optional<Refusal> last_acknowledgement(const QueuePair&);

// True if all that send_responses() would send is one ACK, through an outlet that can lose packets.
bool owes_only_ack_by_wire(const QueuePair&);

}  // namespace verbena::transport

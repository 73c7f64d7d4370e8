// The receiving half of a connected QP: requests are checked, executed and answered (9.7.4, 9.7.5 for RC; 9.8.2 for
// UC).
//
// handle_request() never needs room to answer: what it owes is state of the QP, and send_responses() sends it when the
// outlet has room. RC answers with ACKs, NAKs and responses; UC drops what it cannot accept.
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// One request slot for a QP that is RC or UC. `payload` is slot.length bytes.
void handle_request(Context&, QueuePair&, const wire::Slot& slot, const std::byte* payload);

// Sends what the responder owes. False: the outlet is full, and the QP still owes.
bool send_responses(Context&, QueuePair&);

}  // namespace verbena::transport

// SPDX-License-Identifier: Apache-2.0
// The answers of an RC responder: ACKs, NAKs, and the responses to READs and atomics (IBA 9.7.5).
//
// An answer is state of its queue pair until send_responses() finds room for it in the outlet. So
// many requests of one pass have one ACK.
//
// Threads: under the engine's lock.
#pragma once

#include <optional>

#include "nic/transport/context.h"
#include "nic/transport/responder_checks.h"

namespace verbena::transport {

// The requests executed so far are to be acknowledged.
inline void schedule_ack(Context& context, QueuePair& qp) {
	qp.pending_answer |= ack_pending;
	context.schedule_responses(qp);
}

// Refuses a request. RC answers with a NAK and, unless the requester is to retry, enters the error
// state (IBA 9.9). UC discards the message; a fault in the receive WQE itself is an error of the QP
// there too. The program learns of the error once: by the completion of the faulty receive
// (`completed`), otherwise by an asynchronous event.
void refuse(Context&, QueuePair&, Verdict, bool completed = false);

// Sends the pending responses and the pending ACK or NAK. Returns false if the outlet is full; the
// rest stays pending, and the caller tries again in a later pass.
bool send_responses(Context&, QueuePair&);

// For a queue pair that is about to be destroyed or reset: the ACK or NAK that send_responses()
// found no room for, because its program may have seen the message already. Nothing between hosts,
// where the peer's timer repeats the request, and nothing if responses are pending.
std::optional<Refusal> last_answer(const QueuePair&);

// True if all that send_responses() would send is one ACK that may wait for the program's next
// request (engine/ack_delay.h): one to another host, or one on this host for a WRITE that the
// program sees in its memory alone (docs/decisions/0063).
bool ack_can_wait(const QueuePair&);

}  // namespace verbena::transport

// SPDX-License-Identifier: Apache-2.0
// The requests in flight: those that a requester sent and its peer has not acknowledged.
//
// The requester adds requests; the completer, the retry timer and errors remove them, and only
// through these functions.
//
// Threads: under the engine's lock.
// Invariants: the slot of a WQE is free before the WQE's completion can be seen.
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// Completes, oldest first, every request whose PSNs all lie below `target`, and advances `una`, to
// `target` at most. Stops before a READ or atomic whose response is missing; `una` then stays below
// `target`. May fail the send queue, if the request that is now oldest has a pending error.
void retire_to(Context&, QueuePair&, Psn target);

// Completes the oldest request, which was executed directly and took no PSN (direct.h).
void retire_direct(Context&, QueuePair&);

// Goes back to `psn`, so that transmit() sends again from there on; una <= psn <= next_psn. Local
// operations that were executed are not repeated.
void rewind_to(QueuePair&, Psn psn);

// After a rewind: an answer shows that the peer has received everything before `psn`, so the
// requester need not send it again. Stops before a READ whose response is missing.
void skip_to(QueuePair&, Psn psn);

// Records in `sq_begun` which requests were begun, including those to be sent again. SQD lets these
// finish and starts no others (IBA 10.3.1).
void note_begun(QueuePair&);

// SQD: raises sq_drained, if it is pending and all requests that were begun have completed.
void report_drained(Context&, QueuePair&);

// Completes the oldest request with `status`, flushes all others, and moves the QP to the error
// state (RC) or to SQE (UC, UD) (IBA 10.3.1).
void fail_send_queue(Context&, QueuePair&, queues::Status status);

// Moves the QP to the error state: everything posted on either queue completes as flushed.
void enter_error(Context&, QueuePair&, ErrorCause);

// Completes all posted requests as flushed; also called for requests posted in an error state. With
// an SRQ, whose entries stay, flush_receive_queue() raises last_wqe_reached instead.
void flush_send_queue(Context&, QueuePair&);
void flush_receive_queue(Context&, QueuePair&);

}  // namespace verbena::transport

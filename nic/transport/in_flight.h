// The requests in flight: what a requester has sent and no peer has acknowledged. The requester adds to them; the
// completer, the retry timer and errors take from them, and only through these functions.
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// Completes, oldest first, every request whose PSNs all lie below `target`, and moves `una` up to `target` at most.
// Stops before a READ or atomic whose response is missing: then `una` stays below `target`.
void retire_to(Context&, QueuePair&, Psn target);

// Sends again from `psn` on; una <= psn <= next_psn.
void rewind_to(QueuePair&, Psn psn);

// An answer shows that the peer has all before `psn`, of which some was about to be sent again: goes on behind it.
void skip_to(QueuePair&, Psn psn);

// Remembers which requests have been begun, those included that are to be sent again: SQD lets these finish and no
// others.
void note_begun(QueuePair&);

// SQD: raises the event that is owed once all that had been begun has completed.
void report_drained(Context&, QueuePair&);

// The oldest request fails with `status`, all others are flushed, and the QP goes to the error state (RC), or to send
// queue error (UC, UD).
void fail_send_queue(Context&, QueuePair&, queues::Status status);

// To the error state: everything that is posted on either queue completes as flushed.
void enter_error(Context&, QueuePair&);

// Completes what was posted after the QP had gone to an error state.
void flush_send_queue(Context&, QueuePair&);
void flush_receive_queue(Context&, QueuePair&);

// A completion for one send WQE.
void complete_send(Context&, QueuePair&, const queues::SendWqe&, queues::Status);

}  // namespace verbena::transport

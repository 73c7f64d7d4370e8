// SPDX-License-Identifier: Apache-2.0
// Doubt about NAKs that arrive over a network, where every process of the peer's host can forge
// them.
//
// A NAK that ends a connection is not believed at once. The responder of a true one is in the error
// state and silent from then on (IBA 9.9), while a healthy responder acknowledges the request that
// the NAK refuses. So an acknowledgement or response at or beyond this request refutes the NAK,
// and silence confirms it. New requests are sent meanwhile: their acknowledgements refute a forged
// NAK without any extra packet, and a responder in the error state ignores them. If nothing
// arrives, the last packet in flight is sent once more, at growing intervals; its acknowledgement
// covers the refused request too.
//
// The wait is believe_after_round_trips round trips, at least believe_after_min. Answers to packets
// that were never sent show that NAKs are being forged. Then the wait of this connection is at
// least believe_after_forgery, because the peer's process may be descheduled that long.
//
// Same-host links use none of this: only the peer can write to them, so NAKs are believed at once.
//
// Threads: under the engine's lock.
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

inline constexpr unsigned believe_after_round_trips = 4;
inline constexpr Nanoseconds believe_after_min = 4'000'000, believe_after_forgery = 100'000'000;

// A NAK refuses the request `psn`, or a response to it is invalid; una <= psn < the highest PSN
// sent. If it is confirmed, the request fails with `status`. Further NAKs change nothing, except
// that the NAK for the oldest request counts.
void doubt_nak(Context&, QueuePair&, Psn psn, queues::Status status);

// An answer names the packet `psn`, which is not in flight. `sent_end`: one past the highest PSN
// ever sent. `ends_connection`: it is a NAK other than RNR and sequence error.
void note_stray(Context&, QueuePair&, Psn psn, Psn sent_end, bool ends_connection);

// A sequence error or RNR NAK shows that the responder may not be in the error state: the wait
// starts anew.
void note_sign_of_life(Context&, QueuePair&);

// The RNR NAK for which no retry is left may be forged. Returns true if RNR NAKs have now come for
// long enough without progress. If false, the caller pauses for `retry_distance()` and sends again.
bool believe_rnr_nak(Context&, QueuePair&);
Nanoseconds retry_distance(const QueuePair&);

// The QP's timer expired. Ends a doubt that was refuted, asks the peer again, or fails the send
// queue. Returns false if the send queue failed.
bool handle_doubt(Context&, QueuePair&, Nanoseconds now);
// Fails the send queue with the NAK in doubt, which exists: no retry is left.
void believe_nak(Context&, QueuePair&);

}  // namespace verbena::transport

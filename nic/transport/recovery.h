// SPDX-License-Identifier: Apache-2.0
// Loss recovery for links that can lose packets: round-trip time, window, probes and timeouts.
// Same-host links use none of this.
//
// Three signals show that a packet was lost:
//  - The peer's NAK, or a READ response out of sequence, reports it at once. The peer repeats its
//    NAK once per round trip while the gap lasts.
//  - If nothing arrives for four round trips, a probe repeats the last packet; the answer is an ACK
//    or a NAK. Probes repeat at doubling intervals and do not count as retries.
//  - The local ACK timeout ends the wait; only it counts against retry_count (IBA 9.7.6.1.3).
//
// Threads: under the engine's lock.
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// The window: the bytes that may be unacknowledged on one outlet. The QPs with unacknowledged
// packets share the window equally; each may have share_packets_min packets in flight in any case.
// Where the room of the socket that receives is known (Outlet::room, or own_room for READ
// responses), all together stay below it, but for one packet of each.
// The window grows by an eighth whenever as many bytes as it holds have been acknowledged, up to
// the room. A loss halves it, at most once per round trip, and an ACK timeout sets it to
// window_packets_min packets.
inline constexpr std::uint32_t window_bytes_first = 128 << 10, window_bytes_max = 512 << 10;
inline constexpr std::uint32_t window_packets_min = 8, share_packets_min = 2;
// A READ is requested in parts of read_part_bytes; one request covers up to read_parts_at_once
// parts if the window has room. After a loss the requester asks again for the rest of one part. A
// retried READ may cover a part of the original (IBA 9.4.4), so the responder recognizes the
// retried READ as a duplicate, wherever the original began and ended.
inline constexpr std::uint32_t read_part_bytes = 16 << 10, read_parts_at_once = 4;

// One past the last PSN that the QP may send now, if its packets go to the peer: the end of its
// share of the window, or of its probe.
Psn window_end(const QueuePair&);

// Whether so little of the window, up to its `end`, is free that the rest of a message,
// `bytes_left`, must wait for more acknowledgements. Many short batches cost more system calls, and
// more memory in the peer's socket, than a few long ones.
bool window_is_scarce(const QueuePair&, Psn end, std::uint32_t bytes_left);

// The number of bytes that the next request of a READ asks for. `offset` is the number of bytes
// requested before, `rest` the number of those that remain. The response packets count towards the
// requester's window, so the window limits the request.
std::uint32_t read_span(const QueuePair&, std::uint32_t offset, std::uint32_t rest);
// Whether the window allows a READ or atomic whose response has `packets` packets.
bool window_allows_request(const QueuePair&, std::uint32_t packets);

// To be called after packets [before, next_psn) were written to an outlet that can lose them:
// starts the timer and, unless they are retransmissions, a round-trip measurement.
void note_sent(Context&, QueuePair&, Psn before);

// To be called after `una` advanced from `before`: resets the retry count, measures the round trip,
// grows the window.
void note_progress(Context&, QueuePair&, Psn before);

// Rewinds the requester to `psn` because the packets from there on were lost, and shrinks the
// window.
void resend_from(Context&, QueuePair&, Psn psn);

// Whether a NAK for `psn` calls for a retransmission. False if the last retransmission from `psn`
// was less than a round trip ago, so that the NAK cannot be an answer to it.
bool nak_needs_resend(Context&, QueuePair&, Psn psn);

// Responder: a request out of sequence arrived. Returns true if the caller must send a NAK: the
// first for this gap, or a repetition after a round trip.
bool nak_is_due(Context&, QueuePair&);
// Responder: an RNR NAK is sent. The requester will pause, so the time until its next request is
// not measured as a round trip.
void note_not_ready(Context&, QueuePair&);
// Responder: the missing packet arrived. The time since the NAK is a round-trip sample, unless the
// NAK was repeated.
void note_gap_closed(Context&, QueuePair&);

// The smoothed round trip of the QP's outlet, or a guess before the first sample.
Nanoseconds round_trip(const QueuePair&);

// Sets the QP's timer to its next probe, ACK timeout or look at a doubtful NAK (doubt.h).
void schedule_timer(Context&, QueuePair&);

// Sends the last packet in flight once more, unless the QP may not send now. Not a retry.
void send_probe(Context&, QueuePair&);

// Ends the QP's share of its outlet's window. To be called when the QP has no unacknowledged
// packet left, or failed, is reset or changes its path.
void stop_sending(QueuePair&);

// The timer of the QP expired. Sends a probe if packets are unacknowledged. After the ACK timeout,
// it sends them again, or fails the send queue if no retry is left.
void handle_no_progress(Context&, QueuePair&);

}  // namespace verbena::transport

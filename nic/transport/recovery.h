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
// packets share it equally; each may have share_packets_min packets in flight in any case. It grows
// by an eighth after each window that was acknowledged completely, and a loss halves it, at most
// once per round trip.
inline constexpr std::uint32_t window_bytes_first = 128 << 10, window_bytes_max = 512 << 10;
inline constexpr std::uint32_t window_packets_min = 8, share_packets_min = 2;
// A READ is requested in parts of this size, several at once if the window has room. After a loss
// the requester asks again for the rest of one part. A retried READ may cover a part of the
// original (IBA 9.4.4), so the responder recognizes it as a duplicate wherever the first request
// began and ended.
inline constexpr std::uint32_t read_part_bytes = 16 << 10, read_parts_at_once = 4;

// One past the last PSN that the window allows to send.
Psn window_end(const QueuePair&);

// The number of bytes to request of a READ of which `rest` bytes remain from `offset` on. The
// requester limits the response packets that will come to it, as they count towards the window too.
std::uint32_t read_span(const QueuePair&, std::uint32_t offset, std::uint32_t rest);
// Whether the window allows a READ or atomic whose response has `packets` packets.
bool window_allows_request(const QueuePair&, std::uint32_t packets);

// To call after packets [before, next_psn) were written to an outlet that can lose them: starts the
// wait and the round-trip measurement.
void note_sent(Context&, QueuePair&, Psn before);

// To call after `una` advanced from `before`: resets the retry counts, measures the round trip,
// grows the window.
void note_progress(Context&, QueuePair&, Psn before);

// Rewinds the requester to `psn` because the packets from there on were lost, and shrinks the
// window.
void resend_from(Context&, QueuePair&, Psn psn);

// Whether a NAK for `psn` calls for a retransmission. False if the last retransmission from `psn`
// was less than a round trip ago, so that the NAK cannot be an answer to it.
bool nak_needs_resend(Context&, QueuePair&, Psn psn);

// Responder: a request out of sequence arrived. True if a NAK is due: the first for this gap, or a
// repetition after a round trip.
bool nak_is_due(Context&, QueuePair&);
// Responder: an RNR NAK is sent. The requester will pause, so the time until its next request is no
// round trip.
void note_not_ready(Context&, QueuePair&);
// Responder: the missing packet arrived. The time since the NAK is a round-trip sample.
void note_gap_closed(Context&, QueuePair&);

// The QP no longer counts as a sender of its outlet: nothing is unacknowledged, or it failed, is
// reset or changes its path.
void stop_sending(QueuePair&);

// The timer of a QP with unacknowledged packets expired: sends a probe, or after the ACK timeout
// retries or fails.
void handle_no_progress(Context&, QueuePair&);

}  // namespace verbena::transport

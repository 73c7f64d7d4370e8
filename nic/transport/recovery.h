// What a QP knows about a link that can lose its packets: round-trip time, window, and when it has waited too long.
// Same-host links have none of this.
//
// Three things tell that a packet is lost. The peer's NAK (or a READ response out of sequence) says so at once, and
// says it again once per round trip while the gap lasts. If nothing comes at all, a probe goes out after four round
// trips, the last packet again: its answer is an acknowledgement or a NAK. Probes repeat at doubling distances and are
// not retries. At last the local ACK timeout ends the wait; it alone counts against retry_count (9.7.6.1.3).
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// What may be unacknowledged on a path, shared by the queue pairs that have something under way there, each of which
// may have a little in any case. It grows with every window that was acknowledged whole, and a loss halves it, once in
// a round trip.
inline constexpr std::uint32_t window_bytes_first = 128 << 10, window_bytes_max = 512 << 10;
inline constexpr std::uint32_t window_packets_min = 8, share_packets_min = 2;
// A READ is asked for in parts of this size, a few at once if the window has room for them. What is asked for again is
// the rest of one part: the responder knows it for a duplicate, wherever the first request for it began and ended.
inline constexpr std::uint32_t read_part_bytes = 16 << 10, read_parts_at_once = 4;

// Packets up to here may be sent.
Psn window_end(const QueuePair&);

// How much of the `rest` of a READ, from `offset` on, to ask for. What comes back is the requester's own to bound.
std::uint32_t read_span(const QueuePair&, std::uint32_t offset, std::uint32_t rest);
// A READ or atomic with `packets` packets of response may be asked for.
bool may_ask(const QueuePair&, std::uint32_t packets);

// Packets [before, next_psn) have just been written to an outlet that can lose them.
void note_sent(Context&, QueuePair&, Psn before);

// `una` has moved on from `before`.
void note_progress(Context&, QueuePair&, Psn before);

// The requester goes back to `psn`, because what it had sent from there on is lost.
void resend_from(Context&, QueuePair&, Psn psn);

// A NAK for `psn` came. False: what was sent again because of the last one can not have had an answer yet.
bool nak_is_news(Context&, QueuePair&, Psn psn);

// The responder's side: a request out of sequence has come. True: it is time to say so (again).
bool nak_is_due(Context&, QueuePair&);
// The NAK that goes out is for want of a receive, and the requester will wait a while.
void note_not_ready(Context&, QueuePair&);
// The gap has closed.
void note_gap_closed(Context&, QueuePair&);

// The QP leaves its path: it has failed, is reset, or goes another way.
void stop_sending(QueuePair&);

// The timer of a QP with unacknowledged packets expired: probes, or judges the timeout.
void judge_silence(Context&, QueuePair&);

}  // namespace verbena::transport

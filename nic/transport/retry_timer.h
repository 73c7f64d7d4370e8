// Local ACK timeouts, RNR pauses, and what follows from them (9.7.6.1.3, 9.7.5.2.8).
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// 4.096 us * 2^timeout, `timeout` 1 to 31; 0 means no limit and gives `never`.
Nanoseconds ack_timeout(std::uint8_t timeout);

// The pause that an RNR NAK's timer code asks for (table 45).
Nanoseconds rnr_pause(std::uint8_t code);

// The entry of this QP expired.
void handle_retry_timer(Context&, QueuePair&);

// The receiver was not ready, or (same host) not there yet: tries again from `una` after `pause`.
void pause_requester(Context&, QueuePair&, Nanoseconds pause);

}  // namespace verbena::transport

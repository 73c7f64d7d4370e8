// SPDX-License-Identifier: Apache-2.0
// The retry timer of a requester: local ACK timeouts and RNR pauses (IBA 9.7.6.1.3, 9.7.5.2.8).
//
// Threads: under the engine's lock.
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// The local ACK timeout in nanoseconds: 4.096 us * 2^timeout, `timeout` 1 to 31. 0 means no limit
// and gives `never` (IBA 9.7.6.1.3).
Nanoseconds ack_timeout(std::uint8_t timeout);

// The pause in nanoseconds for the timer code of an RNR NAK, 0 to 31 (IBA 9.7.5.2.8).
Nanoseconds rnr_pause(std::uint8_t code);

// To call when the QP's timer entry has expired.
void handle_retry_timer(Context&, QueuePair&);

// Blocks the requester for `pause` nanoseconds, after which the timer resumes it. The caller has
// rewound it.
void pause_requester(Context&, QueuePair&, Nanoseconds pause);
// Ends the pause of an RNR NAK early. The caller transmits.
void end_rnr_pause(Context&, QueuePair&);

}  // namespace verbena::transport

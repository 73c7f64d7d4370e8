// The sending half of a QP: work requests into packets (9.4, 9.7.2 for RC, 9.8.2 for UC, 9.8.3 for UD).
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// Sends as much of the send queue as the outlet, the peer and the QP's limits allow. Renders straight into the outlet's
// slots; a WQE that was not sent whole goes on where it stopped.
void transmit(Context&, QueuePair&);

// The outlet has room again: lets the QPs that wait on it go on, oldest first, and drops the datagrams of those that
// have waited too long.
void resume_waiting(Context&, Outlet&);

// UD and UC: when a link has had no room for this long, its peer is taken to have stopped, and messages to it are
// dropped until it goes on: one stopped process must not block a UD queue that serves many. Longer than a busy machine
// keeps a process off its processors.
inline constexpr Nanoseconds unreliable_patience = 100'000'000;

}  // namespace verbena::transport

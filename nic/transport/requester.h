// SPDX-License-Identifier: Apache-2.0
// The requester: turns the work requests of a send queue into packets (IBA 9.4 and 9.7.3 for RC,
// 9.8.2 for UC, 9.8.3 for UD).
//
// Threads: under the engine's lock.
// Errors: a WQE that cannot be sent (no right to its memory, max_rd_atomic of 0, a failed bind)
//   fails its send queue once all WQEs before it have completed; a datagram that is too long or has
//   no path is dropped (IBA 9.8.3).
#pragma once

#include "nic/transport/context.h"
#include "nic/transport/queue_pair.h"

namespace verbena::transport {

// Sends as much of the send queue as the outlet, the peer and the QP's limits allow, and writes
// each packet straight into a slot of the outlet. A WQE that was sent in part continues there at
// the next call.
void transmit(Context&, QueuePair&);

// The bind that a send request asks for.
inline memory::KeyTable::Binding binding_of(const queues::SendWqe& wqe, const QueuePair& qp) {
	return {wqe.bind.window_key, wqe.bind.new_key, wqe.bind.region_key, wqe.bind.address, wqe.bind.length,
		wqe.bind.access, wqe.bind.any_qp ? 0 : qp.qpn};
}

// To call when the outlet may have room again. Transmits for the QPs on its waiting list, oldest
// first; drops their UD and UC messages if the outlet has been full for longer than
// `stalled_peer_timeout`. Returns whether direct operations were executed: then there may be more
// to do at once, without the peer.
bool resume_waiting(Context&, Outlet&);

// After an outlet has been full for this long, its peer counts as stalled: UD and UC messages to it
// are dropped until it takes packets again, because one stalled process must not block a UD queue
// that serves many. A busy machine may deschedule a process for a while; the value is above that.
inline constexpr Nanoseconds stalled_peer_timeout = 100'000'000;

}  // namespace verbena::transport

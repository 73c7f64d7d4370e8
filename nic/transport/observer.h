// SPDX-License-Identifier: Apache-2.0
// An observer of what the transport does: packets, the ends of requests, and waits. A trace is one
// (nic/observe), and so is the adversary, which also takes packets away (nic/adversary).
//
// The context of an adapter has at most one (Context::observer). Without one, each place that would
// call it costs one comparison with null.
//
// Threads: every method under the engine's lock.
// Lifetime: the observer outlives the adapter.
// Errors: none; the methods cannot throw, because a pass must not end in the middle.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "nic/queues/completion.h"
#include "nic/queues/work_request.h"
#include "nic/wire/ack_ring.h"
#include "nic/wire/slot.h"
#include "nic/wire/slot_ring.h"

namespace verbena::transport {

struct Outlet;
struct QueuePair;

enum class Waits : std::uint8_t { for_room, not_ready, not_receiving, again };

class Observer {
public:
	// A slot of `length` bytes was written to the outlet by the queue pair `source`, or 0. Packets
	// between hosts leave later.
	virtual void sent(const Outlet&, const wire::Slot&, std::uint32_t length, std::uint32_t source) noexcept = 0;
	// Before the packet is handled. False: the observer has taken it away, and it counts as lost.
	virtual bool arrived(
		const Outlet& from, const wire::Slot&, const std::byte* payload, const wire::AddressPair&) noexcept = 0;
	// The packet has been handled, or dropped: its payload is not there any more.
	virtual void handled() noexcept {}
	// Same host: an acknowledgement that is no packet.
	virtual void acknowledged(const QueuePair&, std::uint8_t syndrome, wire::Psn24) noexcept = 0;
	virtual void acknowledgement_arrived(const Outlet& from, const wire::AckRecord&) noexcept = 0;
	// A request leaves the send queue, before its completion can be seen. `direct`: it was executed
	// in the peer's memory.
	virtual void finished(const QueuePair&, const queues::SendWqe&, queues::Status, bool direct) noexcept = 0;
	// A receive request has completed.
	virtual void received(const queues::Completion&) noexcept = 0;
	// The requester waits, for `pause` nanoseconds or, if it is 0, until an event.
	virtual void waits(const QueuePair&, Waits, Nanoseconds pause) noexcept = 0;
	// The queue pair is about to be destroyed or reset, or to enter the error state.
	virtual void ends(QueuePair&) noexcept {}
	// The next message of a connection's set-up or end is about to leave. True: it waits, and is
	// asked for again in the next pass.
	virtual bool holds_message() noexcept { return false; }
	// A right to memory was withdrawn; the verb that did so has not returned yet.
	virtual void withdrawn() noexcept {}

protected:
	~Observer() = default;
};

}  // namespace verbena::transport

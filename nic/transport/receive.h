// SPDX-License-Identifier: Apache-2.0
// Receive WQEs: copying a message into one and removing it from its queue. Used by the responder
// and by datagrams.
//
// Threads: under the engine's lock.
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// Copies `length` bytes into the memory that the segments of a receive WQE name, to byte `offset`
// of that memory and on. Returns local_length, and copies nothing, if the segments are too short.
// Returns local_protection if the QP has no right to write to a segment or the memory is unmapped;
// a part may have been copied then.
queues::Status scatter(
	Context&, QueuePair&, queues::ReceiveWqe&, std::uint32_t offset, const std::byte* from, std::uint32_t length);

// Removes the oldest receive WQE from the QP's receive queue. For an SRQ, it also prefetches a
// later buffer, and raises srq_limit_reached if the SRQ has fallen below its limit.
void pop_receive(Context&, QueuePair&);

}  // namespace verbena::transport

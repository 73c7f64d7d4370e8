// Receive WQEs: copying a message into one and removing it from its queue. Used by the responder
// and by datagrams.
//
// Threads: under the engine's lock.
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// Copies `length` bytes into the segments of a receive WQE, from byte `offset` of them on. Fails
// with local_length if they are too short, and with local_protection if the QP has no right to
// write to a segment or its memory is gone; then a part may have been copied.
queues::Status scatter(
	Context&, QueuePair&, queues::ReceiveWqe&, std::uint32_t offset, const std::byte* from, std::uint32_t length);

// Removes the oldest receive WQE, and raises srq_limit_reached if an SRQ has fallen below its
// limit.
void pop_receive(Context&, QueuePair&);

}  // namespace verbena::transport

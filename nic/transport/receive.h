// Taking a receive WQE and putting a message into it; shared by the connected responder and by datagrams.
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// Copies into the segments of a receive WQE from byte `offset` on. local_length: it is too short; local_protection: a
// segment is not writable.
queues::Status scatter(
	Context&, QueuePair&, queues::ReceiveWqe&, std::uint32_t offset, const std::byte* from, std::uint32_t length);

// The oldest receive WQE has been used.
void pop_receive(Context&, QueuePair&);

}  // namespace verbena::transport

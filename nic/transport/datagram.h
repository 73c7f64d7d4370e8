// Receiving unreliable datagrams (9.8.3): one packet, one message, 40 bytes of GRH before it, and silence about
// everything that does not fit.
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// One datagram for a UD QP; `addresses` are those of the packet that carried it.
void handle_datagram(
	Context&, QueuePair&, const wire::Slot& slot, const std::byte* payload, const wire::AddressPair& addresses);

}  // namespace verbena::transport

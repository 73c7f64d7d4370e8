// SPDX-License-Identifier: Apache-2.0
// Receiving unreliable datagrams (IBA 9.8.3): one packet is one message.
//
// Threads: under the engine's lock.
// Errors: a datagram with the wrong Q_Key, without a posted receive or too long for it is dropped
//   and counted; the sender gets no answer. A receive WQE without the right to its memory moves the
//   QP to the error state.
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// Handles one datagram for a UD queue pair. `addresses` are those of the packet that carried it;
// the first 40 bytes of the receive buffer become a GRH made from them.
void handle_datagram(
	Context&, QueuePair&, const wire::Slot& slot, const std::byte* payload, const wire::AddressPair& addresses);

}  // namespace verbena::transport

// SPDX-License-Identifier: Apache-2.0
// The completer: what the requester does with acknowledgements, NAKs and responses (IBA 9.7.6).
//
// Threads: under the engine's lock.
// Errors: the peer is untrusted. Responses to PSNs that were never sent are ignored; a response of
//   the wrong kind or length fails the send queue with bad_response.
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// Handles an ACK or NAK with its PSN, from an acknowledgement record or a packet.
void handle_acknowledgement(Context&, QueuePair&, std::uint8_t syndrome, wire::Psn24 psn);

// Handles a READ response packet, a run of them, or an atomic acknowledgement. `payload` holds
// slot.length bytes.
void handle_response(Context&, QueuePair&, const wire::Slot& slot, const std::byte* payload);
// Likewise for a READ response whose payload stayed in the peer's file (docs/decisions/0016).
// `payload` is null if the file could not be mapped. `shared_by` reports whether the peer withdrew
// its permission during the copy.
void handle_shared_response(
	Context&, QueuePair&, const wire::Slot& slot, const std::byte* payload, const wire::SlotReader& shared_by);

// Same host only, a syndrome of our own: the peer has no queue pair that can receive the request.
// The requester retries as it would on a network, retry_count times, with the ACK timeout as the
// distance.
inline constexpr std::uint8_t syndrome_not_receiving = 0x7f;

}  // namespace verbena::transport

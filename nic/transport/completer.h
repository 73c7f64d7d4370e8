// The requester's ear: acknowledgements, NAKs and responses (9.7.5, 9.7.6).
#pragma once

#include "nic/transport/context.h"

namespace verbena::transport {

// An ACK or NAK with its PSN, from an acknowledgement record or packet.
void handle_acknowledgement(Context&, QueuePair&, std::uint8_t syndrome, wire::Psn24 psn);

// A READ response packet (or run of them) or an atomic acknowledgement. `payload` is slot.length bytes.
void handle_response(Context&, QueuePair&, const wire::Slot& slot, const std::byte* payload);
// Likewise, if the payload is lent. Null: it could not be had.
void handle_lent_response(
	Context&, QueuePair&, const wire::Slot& slot, const std::byte* payload, const wire::SlotReader& lent_by);

// Same host only: the peer has no QP that would receive this. As on a wire it is tried again, retry_count times, a
// timeout apart.
inline constexpr std::uint8_t syndrome_not_receiving = 0x7f;

}  // namespace verbena::transport

// SPDX-License-Identifier: Apache-2.0
// The responses to READs and atomics that a responder has accepted and not sent yet, and the limit
// of their number (IBA 9.4.4, 9.4.5). send_responses() (answers.h) takes them from the ring.
//
// Threads: under the engine's lock.
#pragma once

#include <cstdint>

#include "nic/transport/queue_pair.h"

namespace verbena::transport {

// Counts the pending responses to new requests, or to duplicates. max_dest_rd_atomic bounds the new
// ones. Duplicates have the same number of entries of their own, so that a network that repeats
// packets cannot make a correct requester exceed its limit.
inline std::uint32_t responses_pending(const ColdQueuePair& cold, bool duplicate) {
	std::uint32_t count = 0;
	for (std::uint32_t i = 0; i < cold.pending_count; ++i)
		count += cold.pending[(cold.pending_first + i) % cold.pending.size()].duplicate == duplicate;
	return count;
}

// Returns false if there are max_dest_rd_atomic pending responses of this kind.
inline bool push_response(QueuePair& qp, const PendingResponse& response) {
	ColdQueuePair& cold = *qp.cold;
	if (responses_pending(cold, response.duplicate) >= cold.pending.size() / 2) return false;
	cold.pending[(cold.pending_first + cold.pending_count++) % cold.pending.size()] = response;
	return true;
}

}  // namespace verbena::transport

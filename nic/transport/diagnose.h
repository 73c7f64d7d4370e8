// SPDX-License-Identifier: Apache-2.0
// Finds out why a request was refused, for people. Called when it has been, so that the paths of
// requests that succeed do nothing for it.
//
// Threads: under the engine's lock.
#pragma once

#include "nic/transport/context.h"
#include "nic/transport/responder_checks.h"
#include "nic/wire/diagnosis.h"

namespace verbena::transport {

// Why [address, address + length) of the key cannot be used for `access`.
wire::Diagnosis diagnose_key(const Context&, const QueuePair&, std::uint32_t key, std::uint64_t address,
	std::uint64_t length, std::uint8_t access);

// The first segment of a list that cannot be used for `access`, as a receive_fault. Cause none: all
// can.
wire::Diagnosis diagnose_segments(
	const Context&, const QueuePair&, const queues::Segment*, std::uint32_t count, std::uint8_t access);

// Responder: why the request in `slot` got this verdict. `receive` is the receive request that it
// has used up, if it failed with it.
wire::Diagnosis diagnose_request(const Context&, const QueuePair&, const wire::Slot&, Verdict);

// Writes the diagnosis to the peer, if it is on this host and of this user, and there is room.
void send_diagnosis(Context&, QueuePair&, const wire::Diagnosis&);

}  // namespace verbena::transport

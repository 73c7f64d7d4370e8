// SPDX-License-Identifier: Apache-2.0
// Finds out why a request was refused, and explains it, for people. Called after the refusal, so
// that the paths of requests that succeed do nothing for it.
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

// Why the receive in use cannot take the message, as a receive_fault. qp.receive_offset is already
// past the packet.
wire::Diagnosis diagnose_receive(const Context&, const QueuePair&, queues::Status);

// Responder: explains a refusal here, and to a peer on this host, before refuse() sends the NAK.
// `of_receive`: the fault is in the receive request, so Context::receive_fault may have the reason.
void explain_refusal(Context&, QueuePair&, const wire::Slot&, Verdict, bool of_receive);

}  // namespace verbena::transport

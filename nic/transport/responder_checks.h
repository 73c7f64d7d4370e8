// SPDX-License-Identifier: Apache-2.0
// The checks of a request packet before it is executed, in the order of the specification (IBA
// 9.7.4 for RC, 9.8.2 for UC).
//
// Each check is a pure function from the responder's state and the packet to a verdict.
// responder.cc calls them in order and is the only place that applies effects, so each rule has a
// table test.
//
// Threads: any.
#pragma once

#include <cstdint>

#include "nic/transport/queue_pair.h"
#include "nic/wire/opcode.h"

namespace verbena::transport {

enum class Verdict : std::uint8_t {
	accept,
	duplicate,  // answer again, and execute again only a READ
	drop,       // without an answer
	nak_sequence_error,
	nak_invalid_request,
	nak_remote_access,
	nak_remote_operation,
	rnr,  // no receive WQE is posted: answer with an RNR NAK
};

struct RequestPacket {
	Psn psn;
	wire::OpcodeFacts facts;
	std::uint32_t length = 0;  // payload bytes of the packet, or of the whole run
	bool run_allowed = false;  // same host: one slot may carry several packets of a message
	std::uint32_t dma_length = 0;  // bytes of the message, if the packet has a RETH
};

inline constexpr std::uint32_t dma_length_max = 1u << 31;  // IBA 9.7.4

// The part of a responder's state that the checks read.
struct ResponderView {
	Psn expected_psn;
	InMessage in_message = InMessage::none;
	bool gap_reported = false;
	std::uint32_t path_mtu = 1024;
};

// IBA 9.7.4, PSN: only the expected PSN is a new request. An older one is a duplicate, a newer one
// shows a gap, for which one NAK is sent.
constexpr Verdict check_psn(const ResponderView& state, Psn psn) {
	if (psn == state.expected_psn) return Verdict::accept;
	if (psn < state.expected_psn) return Verdict::duplicate;
	return state.gap_reported ? Verdict::drop : Verdict::nak_sequence_error;
}

// IBA 9.7.4, opcode sequence: FIRST or ONLY begins a message, MIDDLE or LAST continues the message
// in progress, and both must be of the same kind.
constexpr Verdict check_opcode_sequence(const ResponderView& state, const wire::OpcodeFacts& facts) {
	if (facts.response) return Verdict::drop;
	if (facts.first) return state.in_message == InMessage::none ? Verdict::accept : Verdict::nak_invalid_request;
	const InMessage needed = facts.operation == wire::Operation::send ? InMessage::send : InMessage::write;
	return state.in_message == needed ? Verdict::accept : Verdict::nak_invalid_request;
}

// IBA 9.7.4, length: FIRST and MIDDLE fill the path MTU, LAST carries at least one byte, and no
// packet exceeds the MTU. A run counts as its packets. A RETH names at most 2^31 bytes.
constexpr Verdict check_length(const ResponderView& state, const RequestPacket& packet) {
	const wire::OpcodeFacts& f = packet.facts;
	if (packet.dma_length > dma_length_max) return Verdict::nak_invalid_request;
	if (f.operation != wire::Operation::send && f.operation != wire::Operation::write)
		return packet.length == 0 ? Verdict::accept : Verdict::nak_invalid_request;
	if (!packet.run_allowed && packet.length > state.path_mtu) return Verdict::nak_invalid_request;
	if (!f.last && (packet.length == 0 || packet.length % state.path_mtu != 0)) return Verdict::nak_invalid_request;
	if (f.last && !f.first && packet.length == 0) return Verdict::nak_invalid_request;
	return Verdict::accept;
}

}  // namespace verbena::transport

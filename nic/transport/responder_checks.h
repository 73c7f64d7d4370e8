// What a responder asks of a request packet before it executes anything, in the order of the specification (9.7.4
// and 9.8.2.2: inbound request packet validation). Each check is pure: it looks at the responder's state and the packet
// and gives a verdict. responder.cc runs them in order and alone applies effects, so every rule here has a table test.
#pragma once

#include <cstdint>

#include "nic/transport/queue_pair.h"
#include "nic/wire/opcode.h"

namespace verbena::transport {

enum class Verdict : std::uint8_t {
	accept,
	duplicate,  // answer again; execute nothing but READs
	drop,       // silently
	nak_sequence_error,
	nak_invalid_request,
	nak_remote_access,
	nak_remote_operation,
	rnr,  // no receive WQE: ask for a retry
};

struct RequestPacket {
	Psn psn;
	wire::OpcodeFacts facts;
	std::uint32_t length = 0;  // payload bytes, of the whole run
	bool run_allowed = false;  // same host: one slot may carry several packets
};

struct ResponderView {
	Psn expected_psn;
	InMessage in_message = InMessage::none;
	bool gap_reported = false;
	std::uint32_t path_mtu = 1024;
};

// 9.7.4.1.2: only the expected PSN is new; an older one is a duplicate, a newer one a gap, which is reported once.
constexpr Verdict check_psn(const ResponderView& state, Psn psn) {
	if (psn == state.expected_psn) return Verdict::accept;
	if (psn < state.expected_psn) return Verdict::duplicate;
	return state.gap_reported ? Verdict::drop : Verdict::nak_sequence_error;
}

// 9.7.4.1.4: FIRST or ONLY begins a message and MIDDLE or LAST goes on with the one under way.
constexpr Verdict check_opcode_sequence(const ResponderView& state, const wire::OpcodeFacts& facts) {
	if (facts.response) return Verdict::drop;
	if (facts.first) return state.in_message == InMessage::none ? Verdict::accept : Verdict::nak_invalid_request;
	const InMessage needed = facts.operation == wire::Operation::send ? InMessage::send : InMessage::write;
	return state.in_message == needed ? Verdict::accept : Verdict::nak_invalid_request;
}

// 9.7.4.1.6: all but the last packet of a message fill the path MTU, LAST carries at least one byte, none exceeds the
// MTU.
constexpr Verdict check_length(const ResponderView& state, const RequestPacket& packet) {
	const wire::OpcodeFacts& f = packet.facts;
	if (f.operation != wire::Operation::send && f.operation != wire::Operation::write)
		return packet.length == 0 ? Verdict::accept : Verdict::nak_invalid_request;
	if (!packet.run_allowed && packet.length > state.path_mtu) return Verdict::nak_invalid_request;
	if (!f.last && (packet.length == 0 || packet.length % state.path_mtu != 0)) return Verdict::nak_invalid_request;
	if (f.last && !f.first && packet.length == 0) return Verdict::nak_invalid_request;
	return Verdict::accept;
}

}  // namespace verbena::transport

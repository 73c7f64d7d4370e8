// SPDX-License-Identifier: Apache-2.0
// The state of one connection at one of its two ends (IBA 12.9).
//
// Lifetime: ConnectionManager creates, changes and frees it.
// Invariants: a connection's timer runs only while the connection waits for the peer's answer or
//   for a listener, is in timewait, or keeps an answer for a repeated request.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/time.h"
#include "base/timer_wheel.h"
#include "nic/cm/message.h"
#include "nic/wire/slot_ring.h"

namespace verbena::cm {

// The way to the peer. The source address is this end's. `carrier` identifies the outlet that takes
// messages to the peer, null if the peer's process has ended; this folder never dereferences
// `carrier`. `link` identifies the process at the other end of a shared-memory link, and is 0 for
// UDP. Two links may lead to one process.
struct Route {
	wire::AddressPair addresses{};
	void* carrier = nullptr;
	std::uint64_t link = 0;
};

inline wire::Gid gid_of(const std::uint8_t (&bytes)[16]) {
	wire::Gid gid;
	std::memcpy(gid.data(), bytes, gid.size());
	return gid;
}

// IBA 12.7: a timeout field `code` means 4.096 us * 2^code.
constexpr Nanoseconds duration_of(std::uint8_t code) { return Nanoseconds{4096} << code; }

// The states of IBA 12.9, and those of a datagram request (IBA 12.11).
enum class State : std::uint8_t {
	idle,
	// The service has no listener yet. The request is sent again, unless the owner gives up.
	awaits_service,
	req_sent,
	mra_req_received,  // the peer has the REQ and asked for more time
	req_received,  // waits for this end's program
	rep_sent,
	rep_received,  // waits for this end's program
	established,
	dreq_sent,
	dreq_received,  // waits for this end's program
	timewait,
	sidr_req_sent,
	sidr_req_received,  // waits for this end's program
	sidr_answered,  // kept for a while, so that a repeated request gets the same answer
};

// The parameters of one end's queue pair, as its REQ or REP states them.
struct Half {
	wire::Qpn qpn;
	// The first PSN that the other end sends, and so the first that this end expects (IBA 12.7).
	wire::Psn24 starting_psn;
	// The largest number of READs and atomics in flight that this end serves, and that it starts.
	std::uint8_t responder_resources = 0, initiator_depth = 0;
	std::uint8_t retry_count = 7, rnr_retry_count = 7;  // 3 bits each
	bool flow_control = true, srq = false;
	std::uint32_t q_key = 0;
};

struct Connection : TimerEntry {
	CommId local, remote;  // remote is 0 at the active end until the peer's first message
	State state = State::idle;
	bool active = false;  // this end sent the request
	bool is_datagram = false;  // the active end: the request is a SIDR_REQ
	// destroy() was called: no events are reported, and the connection is freed when its exchange
	// with the peer and its timewait are over.
	bool destroyed_by_owner = false;
	void* user = nullptr;  // the caller's, returned with each event
	Route route;
	ServiceId service;
	std::uint64_t transaction = 0;  // the MAD transaction id of the current exchange
	std::uint64_t request_transaction = 0;  // that of the REQ or SIDR_REQ
	std::uint64_t own_guid = 0, remote_guid = 0;  // the CA GUIDs of both ends
	Half own, other;
	Transport transport = Transport::rc;
	std::uint8_t path_mtu = 3;
	std::uint8_t ack_timeout = 17;

	// The message that is sent again: repeatedly until its answer comes or, if it is itself an
	// answer, when the peer repeats its own message.
	wire::Mad last{};
	Nanoseconds interval = 0;  // the time from the last sending of `last` to the next
	Nanoseconds give_up_at = never;  // if no answer has come by then, the peer is unreachable
	// The active end: the refusals for want of a listener, and the time after which one is final.
	// If the time is 0, the first one is.
	unsigned service_refusals = 0;
	Nanoseconds service_deadline = 0;
};

}  // namespace verbena::cm

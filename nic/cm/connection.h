// The state of one connection at one of its two ends (IBA 12.9).
//
// Lifetime: ConnectionManager creates, changes and frees it.
// Invariants: its timer runs only while it waits for the peer's answer, is in timewait, or keeps an
//   answer for a repeated request.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/time.h"
#include "base/timer_wheel.h"
#include "nic/cm/message.h"
#include "nic/wire/slot_ring.h"

namespace verbena::cm {

// The way to the peer. The source address is this end's. The carrier identifies the link or path
// that takes messages there; this folder never dereferences it.
struct Route {
	wire::AddressPair addresses{};
	void* carrier = nullptr;
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
	// The PSN with which the other end begins to send, so the first that this end expects (IBA
	// 12.7).
	wire::Psn24 starting_psn;
	// READs and atomics in flight that this end serves, and that it will start.
	std::uint8_t responder_resources = 0, initiator_depth = 0;
	std::uint8_t retry_count = 7, rnr_retry_count = 7;  // 3 bits each
	bool flow_control = true, srq = false;
	std::uint32_t q_key = 0;
};

struct Connection : TimerEntry {
	CommId local, remote;  // remote is 0 at the active end until the peer's first message
	State state = State::idle;
	bool active = false;  // this end sent the request
	// destroy() was called: no events are reported, and the connection is freed as soon as the peer
	// has been notified.
	bool destroyed_by_owner = false;
	void* user = nullptr;
	Route route;
	ServiceId service;
	std::uint64_t transaction = 0;  // the MAD transaction id of the current exchange
	std::uint64_t own_guid = 0, remote_guid = 0;  // the CA GUIDs of both ends
	Half own, other;
	Transport transport = Transport::rc;
	std::uint8_t path_mtu = 3;
	std::uint8_t ack_timeout = 17;

	wire::Mad last{};  // the message that is sent again until its answer comes, or on request
	Nanoseconds interval = 0;  // until `last` is sent again
	Nanoseconds give_up_at = never;  // no answer by then: unreachable
};

}  // namespace verbena::cm

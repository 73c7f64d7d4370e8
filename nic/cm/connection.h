// One connection as one of its ends knows it (12.9.5, figures 133 and 134), and what the two ends tell each other of
// their queue pairs.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/time.h"
#include "base/timer_wheel.h"
#include "nic/cm/message.h"
#include "nic/wire/slot_ring.h"

namespace verbena::cm {

// The way to the other end: the addresses, ours first, and what carries packets there, which is nothing but a name
// here.
struct Route {
	wire::AddressPair addresses{};
	void* carrier = nullptr;
};

inline wire::Gid gid_of(const std::uint8_t (&bytes)[16]) {
	wire::Gid gid;
	std::memcpy(gid.data(), bytes, gid.size());
	return gid;
}

// 12.7: a timeout field counts in powers of two of 4.096 us.
constexpr Nanoseconds duration_of(std::uint8_t code) { return Nanoseconds{4096} << code; }

enum class State : std::uint8_t {
	idle,
	req_sent,
	mra_req_received,  // the other end asked for patience
	req_received,
	rep_sent,
	rep_received,
	established,
	dreq_sent,
	dreq_received,
	timewait,
	sidr_req_sent,
	sidr_req_received,
	sidr_answered,
};

// What one end says of its queue pair.
struct Half {
	wire::Qpn qpn;
	wire::Psn24 starting_psn;  // where the other end begins to send: what this end expects first (12.6.5)
	std::uint8_t responder_resources = 0, initiator_depth = 0;
	std::uint8_t retry_count = 7, rnr_retry_count = 7;
	bool flow_control = true, srq = false;
	std::uint32_t q_key = 0;
};

struct Connection : TimerEntry {
	CommId local, remote;
	State state = State::idle;
	bool active = false;  // this end asked
	bool doomed = false;  // its owner has let go: nothing is reported, and it ends as soon as the other end knows
	void* user = nullptr;
	Route route;
	ServiceId service;
	std::uint64_t transaction = 0;
	std::uint64_t own_guid = 0, remote_guid = 0;
	Half own, other;
	Transport transport = Transport::rc;
	std::uint8_t path_mtu = 3;
	std::uint8_t ack_timeout = 17;

	wire::Mad last{};  // sent again until the answer comes
	Nanoseconds interval = 0;  // until the next time
	Nanoseconds give_up_at = never;
};

}  // namespace verbena::cm

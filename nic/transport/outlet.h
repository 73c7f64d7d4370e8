// SPDX-License-Identifier: Apache-2.0
// The transport's way to one destination: the sending half of a link, and the queue pairs that wait
// for room on it.
//
// The link provides the memory, either shared with another process or private and drained into UDP
// packets. The transport writes packets straight into its slots. Queue pairs that find the ring
// full wait here in order, and are resumed when the link has drained.
//
// Threads: under the engine's lock.
// Owns: nothing; the ring belongs to the link, the waiting queue pairs to the adapter.
// Lifetime: as the link that contains it. An outlet whose peer died is `closed`, and stays until no
//   queue pair and no unsent datagram refers to it.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "nic/wire/ack_ring.h"
#include "nic/wire/slot_ring.h"

namespace verbena::transport {

class PeerMemory;
struct QueuePair;

// The last entry of a link's address table, reserved for management datagrams; each one overwrites
// it. An outlet with `addressed` has an entry for each slot instead.
inline constexpr std::uint8_t cm_address_index = wire::Direction::address_count - 1;

struct Outlet {
	wire::SlotWriter slots;
	wire::AckWriter acks;

	// Same host: nothing is lost or reordered, so no retransmission timer runs, and
	// acknowledgements travel as 8-byte records. On other links an acknowledgement is a slot like
	// every packet.
	bool lossless = true;
	bool closed = false;  // the peer died: nothing will drain this ring again
	// A payload was shared through it, so it is on the context's list of such outlets.
	bool shares_payloads = false;
	bool touched = false;  // written to in this pass; on the context's list of such outlets
	// Same host: an acknowledgement was written to it. The engine's Link clears this.
	bool acknowledged = false;
	// Same host: lately the peer took in requests only after a kick, so its program waits for bytes
	// in memory.
	bool peer_needs_kicks = false;
	// Leads to no peer in particular: each slot goes to the addresses of its own entry in the
	// address table, which has the slot's index. For management datagrams over UDP.
	bool addressed = false;
	std::uint64_t peer = 0;  // identifies the process at the other end; two links may lead to it
	PeerMemory* peer_memory = nullptr;  // null: every operation takes the ring (direct.h)
	std::uint64_t direct_steps = 0;  // direct operations, and parts of them, that were executed

	// Queue pairs that wait for room, oldest first (resume_waiting).
	QueuePair* waiting_first = nullptr;
	QueuePair* waiting_last = nullptr;
	bool resuming = false;  // resume_waiting() is running
	std::uint64_t resumed_at = 0;  // steps() when the current QP's turn began
	// Changes with all that a queue pair sends through this outlet.
	std::uint64_t steps() const { return slots.published() + direct_steps; }

	// Links that can lose packets (recovery.h).
	Nanoseconds round_trip = 0;  // smoothed; 0: not measured yet
	std::uint32_t window = 0;  // bytes that may be unacknowledged; 0: window_bytes_first
	// The bytes that the peer's socket, and our own, have room for (engine/room.h); 0: unknown.
	std::uint32_t room = 0, own_room = 0;
	std::uint32_t window_progress = 0;  // bytes acknowledged since the window last changed
	// Queue pairs with unacknowledged packets, which share the window; the bytes of these packets.
	std::uint32_t senders = 0, in_flight = 0;
	Nanoseconds window_cut_at = 0;  // when a loss last halved the window; 0: never

	Nanoseconds full_since = 0;  // valid while queue pairs wait
	bool stalled = false;  // full for stalled_peer_timeout: UC and UD messages are dropped at once

	Outlet* next_touched = nullptr;
	void* user = nullptr;  // the engine's Link or Remote
};

}  // namespace verbena::transport

// Where a QP's packets leave: the sending half of one link, as the transport sees it.
//
// A link gives the memory (shared with another process, or private and drained into UDP packets); the transport renders
// straight into its slots. Queue pairs that found the ring full wait here in order, and are tried again when the link
// has drained.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "nic/wire/slot_ring.h"

namespace verbena::transport {

struct QueuePair;

// The last entry of a link's table of addresses is the management datagrams', one after the other.
inline constexpr std::uint8_t management_address_index = wire::Direction::address_count - 1;

struct Outlet {
	wire::SlotWriter slots;
	wire::AckWriter acks;

	// Same host: nothing is lost or reordered, so there are no retransmission timers, and acknowledgements travel as
	// 8-byte records. Otherwise acknowledgements are slots like everything else.
	bool lossless = true;
	bool closed = false;  // the peer died: nothing will drain this ring again
	bool lends = false;  // on the context's list of those that did
	bool touched = false;  // on the context's list of outlets to which this pass has written
	std::uint64_t peer = 0;  // who is at the other end; two links may lead to one peer

	QueuePair* waiting_first = nullptr;
	QueuePair* waiting_last = nullptr;
	bool resuming = false;  // within resume_waiting(),
	std::uint64_t resumed_at = 0;  // and how much had left when the QP's turn came
	// Of links that can lose packets (recovery.h).
	Nanoseconds round_trip = 0;  // smoothed; 0: not measured yet
	std::uint32_t window = 0;  // bytes that may be unacknowledged; 0: not chosen yet
	std::uint32_t window_progress = 0;  // bytes acknowledged towards its next growth
	std::uint32_t senders = 0;  // queue pairs that share it, because they have unacknowledged packets
	Nanoseconds window_cut_at = 0;
	Nanoseconds full_since = 0;
	bool stalled = false;  // full for so long that unreliable messages are dropped at once, until there is room again

	Outlet* next_touched = nullptr;
	void* user = nullptr;  // the engine's link
};

}  // namespace verbena::transport

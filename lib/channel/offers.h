// SPDX-License-Identifier: Apache-2.0
// The large messages that one channel sends: the peer is offered their bytes, fetches them by RDMA
// READ, and reports what it has fetched.
//
// A body in registered memory, of at least `share_min` bytes, is offered in place, and the head of
// its message travels in frames. The head and body of any other large message are copied, part by
// part, into the pool's memory, and each part is one offer. At most `offers_max` offers are in
// flight. Offers are numbered from 1. Each has a memory window, which is withdrawn when the peer
// reports the offer as fetched. The peer reports offers in their order, so a report is a count.
//
// Threads: the loop's thread.
// Owns: the memory windows of offers in flight, by number.
// Invariants: for each offer in flight, one receive buffer is reserved for the peer's report, so
//   the report needs no credit (docs/decisions/0015).
#pragma once

#include <array>
#include <cstdint>

#include "lib/channel/frame_sender.h"
#include "lib/channel/receive_queue.h"

namespace verbena::channel {

class Offers {
public:
	// The most offers in flight; RcOptions::offers_max is at most this.
	static constexpr std::uint32_t max = 64;

	Offers(RcOwner& owner, FrameSender& frames, DirectOperations& direct, ReceiveQueue& receives)
		: owner_(owner), shared_(owner.shared()), frames_(frames), direct_(direct), receives_(receives) {}

	// The number of offers in flight: made, and not yet reported as fetched.
	std::uint32_t count() const { return made_ - taken_; }
	// When the peer last fetched an offer, or the oldest was made. Only if count() > 0.
	Nanoseconds waits_since() const { return waits_since_; }
	// Bytes of the registered memory that the offers in flight keep.
	std::uint64_t memory_bytes() const;
	// True if the message's body is offered in place; false if copies of head and body are offered.
	bool offers_in_place(const Channel::Sending& sending) const;
	// Sends and offers as much of the message as there is room for. `offered`: all of it is sent or
	// offered, and the peer fetches the body from the caller's memory. `done`: all of it is
	// offered, from copies. `waiting`: a part is neither sent nor offered yet.
	Channel::Sending::Progress advance(Channel::Sending& sending);
	// The peer has fetched the `count` oldest offers in flight; `count` is at most count().
	void handle_taken(std::uint32_t count);
	// True if the peer has fetched the offer with this number, and so all offers before it.
	bool is_taken(std::uint32_t offer) const { return static_cast<std::int32_t>(taken_ - offer) >= 0; }

private:
	std::size_t head_before_offer(const Channel::Sending& sending) const;
	bool make(Channel::Sending& sending);
	Place part_of(const Channel::Sending& sending, std::size_t from);
	bool reserve_answer();

	RcOwner& owner_;
	RcShared& shared_;
	FrameSender& frames_;
	DirectOperations& direct_;
	ReceiveQueue& receives_;
	std::array<std::uint32_t, max> windows_{};  // the window of offer n is at (n - 1) modulo `max`
	// Counts of offers made and offers fetched; each is also the number of the newest such offer.
	std::uint32_t made_ = 0, taken_ = 0;
	Nanoseconds waits_since_ = 0;
};

}  // namespace verbena::channel

// The large messages that one channel sends: the peer is offered their bytes, fetches them by RDMA
// READ, and reports what it has fetched.
//
// A body in registered memory is offered where it lies, and the head of its message goes in frames.
// Otherwise parts of the message are copied into the pool's memory, as many at a time as there may
// be offers. Each offer has a number, from 1, and a memory window, which is withdrawn when the peer
// has fetched it. The peer reports offers in their order, so its report needs only a count.
//
// Threads: the loop's thread.
// Owns: the memory windows of offers in flight, by number.
// Invariants: for each offer in flight, one receive buffer is reserved for the peer's report, which
//   therefore needs no credit (docs/decisions/0015).
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

	// Offers in flight: made, and not reported as fetched.
	std::uint32_t count() const { return made_ - taken_; }
	// Whether the message's body is offered where it lies; otherwise copies are, of head and body.
	bool offers_in_place(const Channel::Sending& sending) const;
	// Offers as much of the message as there is room for. `offered`: all of it is sent or offered,
	// and lies where the peer fetches it. `done`: likewise, but all of it was copied. `waiting`:
	// something is left.
	Channel::Sending::Progress advance(Channel::Sending& sending);
	// The peer has fetched the `count` oldest offers in flight; there are at least as many.
	void handle_taken(std::uint32_t count);
	// Whether the peer has fetched the offer with this number, and all before it.
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
	std::array<std::uint32_t, max> windows_{};  // by number modulo `max`
	std::uint32_t made_ = 0, taken_ = 0;  // counts, and so the newest number made, and fetched
};

}  // namespace verbena::channel

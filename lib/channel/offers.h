// The large messages that one channel sends: the peer is offered their bytes, fetches them by RDMA READ, and tells that
// it has taken them.
//
// Registered memory is lent as it is, and the head of the message goes in frames; otherwise parts of it are copied into
// the pool's memory, as many at a time as there may be offers. Offers have numbers, from 1.
#pragma once

#include <array>
#include <cstdint>

#include "lib/channel/frame_sender.h"
#include "lib/channel/receive_queue.h"

namespace verbena::channel {

class Offers {
public:
	static constexpr std::uint32_t max = 64;

	Offers(RcOwner& owner, FrameSender& frames, DirectOperations& direct, ReceiveQueue& receives)
		: owner_(owner), shared_(owner.shared()), frames_(frames), direct_(direct), receives_(receives) {}

	// Those that the peer has not taken.
	std::uint32_t count() const { return made_ - taken_; }
	// Its body is fetched from where it lies. Otherwise copies are, and the head with them.
	bool lends_body(const Channel::Sending& sending) const;
	Channel::Sending::Progress advance(Channel::Sending& sending);
	// The oldest ones; there are as many.
	void handle_taken(std::uint32_t count);
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
	std::array<std::uint32_t, max> windows_{};  // by which they are lent
	std::uint32_t made_ = 0, taken_ = 0;
};

}  // namespace verbena::channel

// The sending half of an RC channel: it sends frames, inline or from a unit, when the peer has a
// buffer for them and the send queue has room.
//
// A message that fits is sent at once in a frame of its own. When there is no room, small messages
// collect in one pending frame, and senders whose messages do not fit into that wait in the
// channel. The pending frame is sent before theirs. When credits are used up the peer is asked for
// more, once, by a flag of the last frame or by a `want` frame (credits.h).
//
// Threads: the loop's thread.
// Owns: the sending half of the credits, and the pending frame's unit.
// Errors: a request that the device refuses, and a control frame without a unit, end the channel
//   (RcOwner::fail).
#pragma once

#include "lib/channel/credits.h"
#include "lib/channel/direct.h"
#include "lib/channel/frame.h"
#include "lib/channel/rc_end.h"

namespace verbena::channel {

class FrameSender {
public:
	// `grants`: the credits given to the peer; each frame carries their limit. `senders`: the sends
	// that wait for this; a frame that uses the last credit says whether there are any.
	// `device_inline_max`: in bytes.
	FrameSender(RcOwner& owner, SendQueue& sends, const DirectOperations& direct, ReceiveCredits& grants,
		const async::List<async::Waiter>& senders, const RcEnd& peer, std::uint32_t device_inline_max);
	~FrameSender();
	FrameSender(const FrameSender&) = delete;
	FrameSender& operator=(const FrameSender&) = delete;

	// Bytes of messages, with their headers, that one frame holds.
	std::uint32_t payload_max() const { return frame_max_ - FrameHeader::bytes; }
	bool has_pending() const { return pending_ != nullptr; }

	// Sends or collects as much of the message as there is room for; waiting: something is left.
	Channel::Sending::Progress advance(Channel::Sending& sending);
	// Sends the next frame's worth of the `length` bytes that come next. False: there is no unit
	// for it.
	bool post_fragment(Channel::Sending& sending, std::size_t length);
	// True: everything before is sent, and there is room for one more data frame. Otherwise asks
	// the peer for credits.
	bool may_post_data();
	// Sends a data frame: `front` (headers of messages), then the slices. Only when
	// may_post_data(). False: no unit.
	bool post_data(std::span<const std::byte> front, const std::array<std::span<const std::byte>, 2>& slices);
	// Sends the pending frame if there is room. There is a pending frame.
	void post_pending();

	// Asks the peer for credits, unless it was asked already or there are some.
	void ask();
	// Sends the credits that the peer does not know of, unless its last such frame is not seen yet.
	void post_credit();
	// Reports to the peer that `count` of its offers were fetched. Needs no credit: the peer has
	// kept a receive buffer for each of its offers. False: no room in the send queue.
	bool post_taken(std::uint32_t count);
	// Sends the last data frame, which says that no more follow; only frames of flow control may.
	// Without room, or a unit, the caller tries again later.
	void post_close();
	bool close_posted() const { return close_posted_; }
	bool close_acknowledged() const { return close_posted_ && sends_.is_done(close_number_); }
	// A heartbeat, if nothing was sent since the last call.
	void beat();

	// Takes the peer's limit and the control frames that it has seen, from the header of its frame.
	// False: no correct peer sends these numbers.
	bool learn(const FrameHeader& header);

private:
	std::uint32_t frames_in_flight() const { return sends_.in_flight() - direct_.in_flight(); }
	// Two places in the send queue are kept for control frames.
	bool has_room() const { return credits_.available() > 0 && frames_in_flight() + control_kinds < send_depth_; }
	FrameHeader header(FrameKind kind);
	Unit* take_unit();
	bool post_message(const Channel::Sending& sending, MessageHeader message, std::size_t length);
	bool collect(const Channel::Sending& sending);
	void post_frame(std::span<ibv_sge> pieces, Unit* unit, bool signal);
	void post_control(Control kind);
	void post_short(const FrameHeader& header);

	RcOwner& owner_;
	RcShared& shared_;
	SendQueue& sends_;
	const DirectOperations& direct_;
	ReceiveCredits& grants_;
	const async::List<async::Waiter>& senders_;
	SendCredits credits_;
	std::uint32_t frame_max_;  // the smaller unit of both ends, in bytes
	std::uint32_t inline_max_;  // the largest frame that is sent inline, in bytes
	std::uint32_t send_depth_;
	std::uint32_t posted_at_beat_ = 0;  // sends_.posted() at the last beat()
	std::uint32_t close_number_ = 0;  // the request that carries the close
	Unit* pending_ = nullptr;  // the pending frame; its `length` is what it holds
	bool asked_ = false;  // the peer knows that this end waits for credits
	bool heard_ = false;  // a frame has come from the peer
	bool close_posted_ = false;
};

}  // namespace verbena::channel

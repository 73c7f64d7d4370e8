// SPDX-License-Identifier: Apache-2.0
// The sending half of an RC channel: sends frames, inline or from a unit, when the peer has a
// receive buffer for them and the send queue has room.
//
// A message that fits into one frame is sent at once, in a frame of its own. When there is no room,
// small messages collect in one pending frame; senders of larger messages, and of those that do not
// fit into the pending frame, wait in the channel. The pending frame is sent before their messages.
// When the credits are used up, the peer is asked for more, once: by a flag of the frame that uses
// the last one, or by a `want` frame (credits.h).
//
// Threads: the loop's thread.
// Owns: the sending half of the credits, and the pending frame's unit.
// Errors: a request that the device refuses ends the channel (RcOwner::fail), and so does a control
//   frame for which there is no unit.
#pragma once

#include "lib/channel/credits.h"
#include "lib/channel/direct.h"
#include "lib/channel/frame.h"
#include "lib/channel/rc_end.h"

namespace verbena::channel {

class FrameSender {
public:
	// `direct`: its operations share the send queue, but not `send_depth`. `grants`: the credits
	// granted to the peer; each frame carries their limit. `senders`: the sends that wait in the
	// channel; the frame that uses the last credit reports whether there are any, or a pending
	// frame. `device_inline_max`: the most bytes that the queue pair sends inline.
	FrameSender(RcOwner& owner, SendQueue& sends, const DirectOperations& direct, ReceiveCredits& grants,
		const async::List<async::Waiter>& senders, const RcEnd& peer, std::uint32_t device_inline_max);
	~FrameSender();
	FrameSender(const FrameSender&) = delete;
	FrameSender& operator=(const FrameSender&) = delete;

	// Bytes of messages, with their headers, that one frame holds.
	std::uint32_t payload_max() const { return frame_max_ - FrameHeader::bytes; }
	// Whether there is a pending frame.
	bool has_pending() const { return pending_ != nullptr; }
	// Bytes of the messages in the pending frame, with their headers.
	std::uint32_t pending_bytes() const { return pending_ == nullptr ? 0 : pending_->length - FrameHeader::bytes; }
	// Data frames for which the peer has buffers.
	std::uint32_t credits() const { return credits_.available(); }
	// The beginning of the present wait for credits. Only while something waits and credits() is 0.
	Nanoseconds waits_since() const { return waits_since_; }

	// Sends or collects as much of the message as there is room for. `waiting`: something is left.
	Channel::Sending::Progress advance(Channel::Sending& sending);
	// Sends one frame with the next bytes of the message: `length` of them, or as many as a frame
	// holds. Call it only after may_post_data(). False: there is no unit for it (the pool is empty,
	// or `send_units_max` are in flight).
	bool post_fragment(Channel::Sending& sending, std::size_t length);
	// Sends the pending frame first. True: nothing older is left to send, and there is room for one
	// more data frame. False: the peer is asked for credits if there are none.
	bool may_post_data();
	// Sends a data frame: `front` (headers of messages), then the slices. Call it only after
	// may_post_data(). False: there is no unit for it.
	bool post_data(std::span<const std::byte> front, const std::array<std::span<const std::byte>, 2>& slices);
	// Sends the pending frame if there is room. Call it only when has_pending().
	void post_pending();

	// Asks the peer for credits, unless this end has some, has asked already, or cannot send a
	// `want` frame now.
	void ask();
	// Sends the limit in a `credit` frame, unless the peer has not seen the last `credit` frame
	// yet.
	void post_credit();
	// Reports to the peer that `count` of its offers were fetched. This frame needs no credit,
	// because the peer has reserved a receive buffer for each of its offers. False: the send queue
	// is full.
	bool post_taken(std::uint32_t count);
	// Sends the close frame, after which this end sends no more data frames. If there is no room or
	// no unit for it, close_posted() stays false, and the caller calls again later.
	void post_close();
	bool close_posted() const { return close_posted_; }
	// Whether the close frame has reached the peer's adapter.
	bool close_acknowledged() const { return close_posted_ && sends_.is_done(close_number_); }
	// Sends a heartbeat if nothing was sent since the last call; none before the first frame of the
	// peer.
	void beat();

	// Takes the numbers of flow control from the header of a frame from the peer. False: no correct
	// peer sends these numbers.
	bool learn(const FrameHeader& header);

private:
	// Requests in flight that are not direct operations.
	std::uint32_t frames_in_flight() const { return sends_.in_flight() - direct_.in_flight(); }
	// Whether a data frame may be sent now. Two places in the send queue are kept for control
	// frames.
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
	std::uint32_t close_number_ = 0;  // the number of the request that sends the close frame
	Unit* pending_ = nullptr;  // the pending frame, of `length` bytes so far; null: there is none
	Nanoseconds waits_since_ = 0;  // 0: no send has found the credits used up since they grew
	bool asked_ = false;  // the peer was asked for credits, and has not granted any since
	bool heard_ = false;  // a frame has come from the peer
	bool close_posted_ = false;
};

}  // namespace verbena::channel

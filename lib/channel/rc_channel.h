// RcChannel: a channel over one reliable connection (see channel.h for the interface, frame.h for the wire, credits.h
// for flow control).
//
// A message that fits leaves at once in a frame of its own, inline if it is small. When the peer's credits or the send
// queue are used up, small messages collect in one pending frame, and larger or further ones wait in their senders.
// Messages above the smaller `eager_max` of both ends are lent to the peer, which fetches them by RDMA READ: straight
// from registered memory (that already from `lend_min` on), or part by part from copies.
#pragma once

#include "lib/channel/assembly.h"
#include "lib/channel/direct.h"
#include "lib/channel/frame.h"
#include "lib/channel/inbox.h"
#include "lib/channel/offers.h"
#include "lib/channel/rc_transport.h"
#include "lib/channel/send_queue.h"
#include "lib/channel/standstill.h"

namespace verbena::channel {

class RcChannel final : public Channel, private RcOwner, private async::Timer {
public:
	~RcChannel() override;

	void close() override;
	bool closed() const override { return lost_ || (peer_closed_ && close_arrived()); }
	Path path() const override;
	bool direct() const override { return reads_ > 0; }
	MemoryPool* memory() const override { return &shared().memory; }
	// Each way, from now on: for a peer that has not proved itself yet.
	void limit_messages(std::size_t bytes) { message_max_ = bytes; }
	ibv_qp* queue_pair() const { return sends_.queue_pair(); }

private:
	friend class RcTransport;
	friend class Offers;
	RcChannel(RcTransport& transport, RcShared& shared, ChannelId id, std::unique_ptr<ReceiveQueue> own_receives,
		lib::MadeQueuePair made, const RcEnd& peer, std::string peer_name);

	// Channel
	Sending::Progress advance(Sending& sending) override;
	bool has_message() const override {
		return assembly_.complete() ||
			(!inbox_.empty() && !assembly_.begun() && inbox_.header().kind == MessageKind::whole);
	}
	Received next() override;
	void begin(Operation& operation) override;

	// From the transport.
	void prefetch() const;  // what is not in the channel itself
	void handle_frame(Unit* unit);
	void handle_sent(std::uint32_t number);
	void handle_failure(ibv_wc_status status);
	void handle_posted();  // a unit that it held is back in the receive queue
	void handle_memory();  // there is some again
	void handle_units();  // likewise
	void handle_parts_read(std::uint32_t count);

	// Frames of flow control may follow the close.
	bool close_arrived() const { return close_sent_ && sends_.is_done(close_number_); }
	void beat();  // a frame, if none left since the last time
	std::uint32_t frames_in_flight() const { return sends_.in_flight() - direct_.in_flight(); }
	bool may_post() const { return frames_in_flight() + control_kinds < send_depth_; }
	bool has_room() const { return credits_.available() > 0 && may_post(); }
	std::uint32_t payload_max() const { return frame_max_ - FrameHeader::bytes; }
	FrameHeader header(FrameKind kind);
	bool fetches() const { return direct() && !shared().options.fragments_on_heap; }  // what the peer lends
	Sending::Progress post(Sending& sending);
	bool may_post_data();
	bool post_fragment(Sending& sending, std::size_t length);
	bool post_message(const Sending& sending, MessageHeader message, std::size_t length);
	// A data frame: its own header, `front` (of messages), and the slices.
	bool post_data(std::span<const std::byte> front, const std::array<std::span<const std::byte>, 2>& slices);
	void post_frame(std::span<ibv_sge> pieces, Unit* unit, bool signal);
	Unit* take_unit();
	bool collect(const Sending& sending);
	void post_pending();
	void flush();
	void ask();
	void tell_credits();
	void tell_taken();
	void send_control(Control kind);
	void post_short(const FrameHeader& header);
	void limit_closing();
	void finish_close();
	void settle();
	void fail(Trouble trouble, std::string reason) override;
	void break_off(const char* what);  // what the peer did against the protocol
	void take_messages(Unit* unit);
	bool post_another(Unit* unit);
	void lend_more();
	void digest();
	void digest_and_wake();
	bool begin_assembly(std::size_t size);
	void advance_inbox() {
		if (Unit* const unit = inbox_.skip()) transport_.release(unit);
	}
	void expire() override;  // the peer does not close in time

	RcTransport& transport_;
	std::unique_ptr<ReceiveQueue> own_receives_;
	ReceiveQueue& receives_;  // that, or the transport's
	SendQueue sends_;

	DirectOperations direct_;
	std::uint32_t reads_;  // direct ones under way, each way

	// Sending.
	std::uint32_t eager_max_;
	SendCredits credits_;
	std::uint32_t frame_max_;
	std::uint32_t inline_max_;
	std::uint32_t send_depth_;
	std::uint32_t posted_at_beat_ = 0;
	std::uint32_t close_number_ = 0;  // of the request that carries our close
	Unit* pending_ = nullptr;
	bool in_message_ = false;  // the peer has the beginning of a message and not its end
	bool asked_ = false;  // the peer knows that we wait
	bool heard_ = false;  // something came from the peer
	bool close_sent_ = false, peer_closed_ = false, lost_ = false;

	// Receiving.
	ReceiveCredits grants_;
	Inbox inbox_;
	Assembly assembly_;
	Standstill standstill_;  // of that
	bool digest_later_ = false;  // when there is room for direct operations

	Offers offers_{*this};
	std::uint32_t taken_due_ = 0;  // the peer's, fetched but not told

	std::string peer_name_;
};

}  // namespace verbena::channel

// RcChannel: a channel over one reliable connection (see channel.h for the interface, frame.h for the wire, credits.h for flow control).
//
// A message that fits leaves at once in a frame of its own, inline if it is small. When the peer's credits or the send queue are used up,
// small messages collect in one pending frame, and larger or further ones wait in their senders.
#pragma once

#include "lib/channel/frame.h"
#include "lib/channel/heap_message.h"
#include "lib/channel/rc_transport.h"

namespace verbena::channel {

class RcChannel final : public Channel, private async::Timer {
public:
	~RcChannel() override;

	void close() override;
	bool closed() const override { return lost_ || (peer_closed_ && close_arrived()); }
	Path path() const override;
	ibv_qp* queue_pair() const { return qp_.get(); }

private:
	friend class RcTransport;
	RcChannel(RcTransport& transport, lib::MadeQueuePair made, const RcEnd& peer, std::string peer_name);

	// Channel
	Sending::Progress advance(Sending& sending) override;
	bool has_message() const override { return inbox_ != nullptr || assembled_ == assembly_size_; }
	Received next() override;

	// From the transport.
	void handle_frame(Unit* unit);
	void handle_sent(std::uint32_t number);
	void handle_failure(ibv_wc_status status);
	void handle_posted(CreditBank& bank);  // a unit that it held is back in the receive queue

	// Frames of flow control may follow the close.
	bool close_arrived() const { return close_sent_ && static_cast<std::int32_t>(completed_ - close_number_) >= 0; }
	void beat();  // a frame, if none left since the last time
	bool may_post() const { return posted_ - completed_ + control_kinds < send_depth_; }
	bool has_room() const { return credits_.available() > 0 && may_post(); }
	std::uint32_t payload_max() const { return frame_max_ - FrameHeader::bytes; }
	FrameHeader header(FrameKind kind);
	bool post_message(const Sending& sending, MessageHeader message, std::size_t length);
	void post_frame(std::span<ibv_sge> pieces, Unit* unit, bool signal);
	Unit* take_unit();
	bool collect(const Sending& sending);
	void post_pending();
	void flush();
	void ask();
	void tell_credits();
	void send_control(Control kind);
	void finish_close();
	void fail(Trouble trouble, std::string reason);
	void take_messages(Unit* unit);
	void digest();
	void drop_first_unit();
	void expire() override;  // the peer does not close in time

	RcTransport& transport_;
	lib::QueuePair qp_;
	std::uint32_t slot_ = 0, generation_ = 0;

	// Sending.
	SendCredits credits_;
	std::uint32_t frame_max_;
	std::uint32_t inline_max_;
	std::uint32_t send_depth_;
	std::uint32_t posted_ = 0, completed_ = 0, signalled_ = 0;  // counts of work requests
	std::uint32_t posted_at_beat_ = 0;
	std::uint32_t close_number_ = 0;  // of the request that carries our close
	std::uint32_t units_in_flight_ = 0;
	Unit* in_flight_ = nullptr;  // oldest first
	Unit* in_flight_last_ = nullptr;
	Unit* pending_ = nullptr;
	bool asked_ = false;  // the peer knows that we wait
	bool heard_ = false;  // something came from the peer
	bool closing_ = false, close_sent_ = false, peer_closed_ = false, lost_ = false;

	// Receiving.
	ReceiveCredits grants_;
	Unit* inbox_ = nullptr;  // oldest first; `number` is how far the first one was read
	Unit* inbox_last_ = nullptr;
	HeapBlock assembly_;  // of a message of several frames
	std::size_t assembly_size_ = no_assembly;
	std::size_t assembled_ = 0;
	static constexpr std::size_t no_assembly = ~std::size_t{0};

	std::string peer_name_;
};

}  // namespace verbena::channel

// RcChannel: a channel over one reliable connection (see channel.h for the interface, frame.h for the wire, credits.h for flow control).
//
// A message that fits leaves at once in a frame of its own, inline if it is small. When the peer's credits or the send queue are used up,
// small messages collect in one pending frame, and larger or further ones wait in their senders. Messages above `eager_max` are lent to the
// peer, which fetches them by RDMA READ: straight from registered memory, or part by part from copies.
#pragma once

#include "lib/channel/assembly.h"
#include "lib/channel/direct.h"
#include "lib/channel/frame.h"
#include "lib/channel/offers.h"
#include "lib/channel/rc_transport.h"

namespace verbena::channel {

class RcChannel final : public Channel, private async::Timer {
public:
	~RcChannel() override;

	void close() override;
	bool closed() const override { return lost_ || (peer_closed_ && close_arrived()); }
	Path path() const override;
	bool direct() const override { return reads_ > 0; }
	MemoryPool* memory() const override { return &transport_.memory_; }
	ibv_qp* queue_pair() const { return qp_.get(); }

private:
	friend class RcTransport;
	friend class DirectOperations;
	RcChannel(RcTransport& transport, lib::MadeQueuePair made, const RcEnd& peer, std::string peer_name);

	// Channel
	Sending::Progress advance(Sending& sending) override;
	bool has_message() const override {
		return assembly_.complete() || (inbox_ != nullptr && !assembly_.begun() && next_header().kind == MessageKind::whole);
	}
	Received next() override;
	void begin(Operation& operation) override { direct_.begin(operation); }

	// From the transport.
	void handle_frame(Unit* unit);
	void handle_sent(std::uint32_t number);
	void handle_failure(ibv_wc_status status);
	void handle_posted(CreditBank& bank);  // a unit that it held is back in the receive queue
	void handle_memory();  // there is some again
	void handle_part_read();  // from DirectOperations

	// Frames of flow control may follow the close.
	bool close_arrived() const { return close_sent_ && static_cast<std::int32_t>(completed_ - close_number_) >= 0; }
	void beat();  // a frame, if none left since the last time
	std::uint32_t frames_in_flight() const { return posted_ - completed_ - direct_.in_flight(); }
	bool may_post() const { return frames_in_flight() + control_kinds < send_depth_; }
	bool has_room() const { return credits_.available() > 0 && may_post(); }
	std::uint32_t payload_max() const { return frame_max_ - FrameHeader::bytes; }
	FrameHeader header(FrameKind kind);
	Sending::Progress advance_large(Sending& sending);
	static bool is_lent(const Sending& sending);
	static std::size_t head_before_offer(const Sending& sending);
	bool post_fragment(Sending& sending, std::size_t length);
	bool post_offer(Sending& sending);
	Place part_of(const Sending& sending, std::size_t from);
	bool reserve_answer();
	bool post_message(const Sending& sending, MessageHeader message, std::size_t length);
	// A data frame: its own header, `front` (of messages), and the slices.
	bool post_data(std::span<const std::byte> front, const std::array<std::span<const std::byte>, 2>& slices);
	void post_frame(std::span<ibv_sge> pieces, Unit* unit, bool signal);
	std::uint32_t post(ibv_send_wr& request, bool signal);  // its number
	Unit* take_unit();
	bool collect(const Sending& sending);
	void post_pending();
	void flush();
	void ask();
	void tell_credits();
	void tell_taken();
	void send_control(Control kind);
	void post_short(const FrameHeader& header);
	void finish_close();
	void settle();
	void fail(Trouble trouble, std::string reason);
	void take_messages(Unit* unit);
	bool is_possible(std::span<const std::byte> offer) const;
	void handle_taken(std::uint32_t count);
	void digest();
	void digest_and_wake();
	bool begin_assembly(std::size_t size);
	MessageHeader next_header() const { return *MessageHeader::read({inbox_->data + inbox_->number, inbox_->length - inbox_->number}); }
	void drop_first_unit();
	void expire() override;  // the peer does not close in time

	RcTransport& transport_;
	lib::QueuePair qp_;
	std::uint32_t slot_ = 0, generation_ = 0;

	DirectOperations direct_;
	std::uint32_t reads_;  // direct ones under way, each way

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
	Assembly assembly_;
	bool digest_later_ = false;  // when there is room for direct operations

	Offers offers_;  // ours, that the peer is to fetch
	std::uint32_t taken_due_ = 0;  // the peer's, fetched but not told

	std::string peer_name_;
};

}  // namespace verbena::channel

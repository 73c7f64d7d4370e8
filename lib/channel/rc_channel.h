// RcChannel: a channel over one reliable connection (see channel.h for the interface, frame.h for the wire, credits.h
// for flow control).
//
// A message that fits leaves at once in a frame of its own, inline if it is small. When the peer's credits or the send
// queue are used up, small messages collect in one pending frame, and larger or further ones wait in their senders.
// Messages above the smaller `eager_max` of both ends are lent to the peer, which fetches them by RDMA READ: straight
// from registered memory (that already from `lend_min` on), or part by part from copies.
#pragma once

#include "lib/channel/assembly.h"
#include "lib/channel/frame_sender.h"
#include "lib/channel/inbox.h"
#include "lib/channel/offers.h"
#include "lib/channel/rc_transport.h"
#include "lib/channel/standstill.h"

namespace verbena::channel {

class RcChannel final : public Channel, private RcOwner, private async::Timer {
public:
	~RcChannel() override;

	void close() override;
	bool closed() const override { return lost_ || (peer_closed_ && frames_.close_acknowledged()); }
	Path path() const override;
	bool direct() const override { return reads_ > 0; }
	MemoryPool* memory() const override { return &shared().memory; }
	// Each way, from now on: for a peer that has not proved itself yet.
	void limit_messages(std::size_t bytes) { message_max_ = bytes; }
	ibv_qp* queue_pair() const { return sends_.queue_pair(); }

private:
	friend class RcTransport;
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

	void beat();  // a frame, if none left since the last time
	bool fetches() const { return direct() && !shared().options.fragments_on_heap; }  // what the peer lends
	void flush();
	void limit_closing();
	void finish_close();
	void settle();
	void fail(Trouble trouble, std::string reason) override;
	void break_off(const char* what);  // what the peer did against the protocol
	void take_messages(Unit* unit);
	bool post_another(Unit* unit);
	void handle_taken(std::uint32_t count);
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

	std::uint32_t eager_max_;  // larger messages are offered; bytes
	bool in_message_ = false;  // the peer has the beginning of a message and not its end
	bool peer_closed_ = false, lost_ = false;

	ReceiveCredits grants_;
	FrameSender frames_;
	Offers offers_;
	std::uint32_t taken_due_ = 0;  // the peer's offers that were fetched, which it does not know yet

	// Receiving.
	Inbox inbox_;
	Assembly assembly_;
	Standstill standstill_;  // of that
	bool digest_later_ = false;  // when there is room for direct operations

	std::string peer_name_;
};

}  // namespace verbena::channel

// SPDX-License-Identifier: Apache-2.0
// RcChannel: a channel over one reliable connection (RC queue pair). It implements the interface of
// channel.h; its parts do the work: FrameSender sends frames within the peer's credits, Offers
// announces large messages, DirectOperations posts RDMA READs, WRITEs and windows, Inbox and
// Assembly hold what has arrived.
//
// Messages above the smaller `eager_max` of both ends are offered to the peer, which fetches them
// by RDMA READ. So are bodies in registered memory of at least `share_min` bytes. Such a body is
// fetched from where it is; any other large message is fetched in parts, from copies. All other
// messages travel in frames.
//
// Threads: the loop's thread.
// Owns: the queue pair, and the receive buffers behind the credits that it has granted. The
//   destructor hands them to the transport, where the queue pair drains (drain.h).
// Lifetime: a channel is destroyed before its transport. Its messages and leases may outlive it.
// Errors: fail() ends the channel; every waiting coroutine is resumed with the trouble.
#pragma once

#include "lib/channel/assembly.h"
#include "lib/channel/frame_sender.h"
#include "lib/channel/inbox.h"
#include "lib/channel/offers.h"
#include "lib/channel/rc_transport.h"
#include "lib/channel/stall_watch.h"
#include "lib/channel/status.h"

namespace verbena::channel {

class RcChannel final : public Channel, private RcOwner, private async::Timer {
public:
	// Called by RcTransport::connect(), which then enters the channel into its table as `id`.
	// `receives`: the queue in which frames for this queue pair arrive, which is the offer's own
	// receive queue or the shared one. Takes over the receive buffers that the offer has reserved.
	RcChannel(RcTransport& transport, RcShared& shared, ChannelId id, ReceiveQueue& receives, RcOffer offer,
		const RcEnd& peer, std::string peer_name);
	~RcChannel() override;

	void close() override;
	bool closed() const override { return lost_ || (peer_closed_ && frames_.close_acknowledged()); }
	Path path() const override;
	bool direct() const override { return reads_ > 0; }
	MemoryPool* memory() const override { return &shared().memory; }
	// Sets the largest message from now on, sent or received, in bytes. The limit is smaller while
	// the peer has not proved itself.
	void limit_messages(std::size_t bytes) { message_max_ = bytes; }
	ibv_qp* queue_pair() const { return sends_.queue_pair(); }
	ReceiveQueue& receives() { return receives_; }
	using RcOwner::id;
	std::uint32_t reads() const { return reads_; }  // RDMA READs in flight at once, each way
	// The reason for which messages of this channel wait.
	enum class Wait : std::uint8_t { nothing, credits, units, memory, fetch, room };
	Wait wait() const;
	ChannelStatus status() const;

	// The transport calls the methods below. None of them resumes a coroutine: the loop does,
	// later in the turn.
	//
	// A frame has arrived in this unit, which the channel gives back later.
	void handle_frame(Unit* unit);
	// All send requests up to this number are done.
	void handle_sent(std::uint32_t number);
	// A request of the queue pair failed.
	void handle_failure(ibv_wc_status status);
	// A unit that held a data or close frame of this channel is posted to the receive queue again.
	void handle_posted();
	// The channel waits for units (handle_units) or for registered memory (handle_memory), and some
	// may be free now.
	void handle_units();
	void handle_memory();
	// Called about once a second, less often with more than 2,000 channels. Sends a heartbeat if
	// nothing was sent since the last call. Ends the channel if its peer makes no progress within a
	// message while channels wait for memory.
	void beat();
	// Prefetches the memory outside of this object that handling a completion needs.
	void prefetch() const;

private:
	// Channel
	Sending::Progress advance(Sending& sending) override;
	bool has_message() const override {
		return assembly_.complete() ||
			(!inbox_.empty() && !assembly_.begun() && inbox_.header().kind == MessageKind::whole);
	}
	Received next() override;
	void begin(Operation& operation) override;
	// RcOwner
	void fail(Trouble trouble, std::string reason) override;
	// Timer: the peer has not closed in time.
	void expire() override;

	// True if messages are assembled in registered memory, so that this end can fetch the peer's
	// offers.
	bool fetches() const { return direct() && !shared().options.fragments_on_heap; }
	void flush();
	void limit_closing();
	void finish_close();
	void settle();
	// Fails with Trouble::protocol. `what` describes the peer's error.
	void break_off(const char* what);
	void take_messages(Unit* unit);
	bool post_another(Unit* unit);
	void handle_taken(std::uint32_t count);
	void handle_parts_read(std::uint32_t count);
	void grant_more();
	void digest();
	void digest_and_wake();
	bool begin_assembly(std::size_t size);
	void advance_inbox() {
		if (Unit* const unit = inbox_.skip()) transport_.release(unit);
	}

	RcTransport& transport_;
	std::unique_ptr<ReceiveQueue> own_receives_;  // RecvMode::per_connection only
	ReceiveQueue& receives_;  // *own_receives_, or the transport's shared queue
	SendQueue sends_;
	DirectOperations direct_;
	std::uint32_t reads_;  // 0: no direct operations
	std::uint32_t eager_max_;  // larger messages are offered to the peer; bytes
	ReceiveCredits grants_;
	FrameSender frames_;
	Offers offers_;
	// The number of the peer's offers that this end has fetched and not yet reported as fetched.
	std::uint32_t taken_due_ = 0;

	Inbox inbox_;
	Assembly assembly_;
	StallWatch stall_watch_;  // watches assembly_

	bool in_message_ = false;  // the beginning of a message is sent, and its end is not
	bool digest_later_ = false;  // the peer's next offer waits until a READ can be posted
	bool peer_closed_ = false;  // the peer's close frame has arrived
	bool lost_ = false;  // fail() was called
	std::uint32_t mtu_;  // the connection's, in bytes
	std::uint32_t peer_qpn_;
	std::string peer_name_;
};

}  // namespace verbena::channel

// RcTransport: what all RC channels of one loop share: the device, one completion queue, one shared receive queue with
// its pool of units and their bank of credits, and the table from queue pair numbers to channels.
//
// A channel on which nothing was sent for a while sends an RDMA WRITE of no bytes, because a reliable connection
// notices that its peer is gone only when it sends: once a second, and with more than 2,000 channels less often, 2,000
// a second over all of them.
//
// Memory for direct operations comes from its pool, and is lent by its windows.
//
// It is a poller of its loop and lives on that loop's thread. Channels must be destroyed before it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/channel/qpn_table.h"
#include "lib/channel/rc_end.h"
#include "lib/channel/rc_shared.h"
#include "lib/channel/receive_queue.h"
#include "lib/verbs/device.h"
#include "lib/verbs/queue_pair.h"

namespace verbena::channel {

class RcChannel;
class RcTransport;

// A connection's share of the bank; it goes back with this, unless a channel took it.
struct ReturnShare {
	std::uint32_t units = 0;
	void operator()(CreditBank* bank) const { bank->posted(units); }
};
using Share = std::unique_ptr<CreditBank, ReturnShare>;

// A queue pair that waits for its peer. Dies before its transport.
struct RcOffer {
	std::unique_ptr<ReceiveQueue> own_receives;  // RecvMode::per_connection
	Share share;
	lib::MadeQueuePair made;
	RcEnd end;
};

// What a transport has made of the device, now; queue pairs once they are connected.
struct VerbsObjects {
	std::size_t queue_pairs = 0, completion_queues = 0, shared_receive_queues = 0, domains = 0, memory_regions = 0;
};

class RcTransport final : public async::Poller, public async::TurnEnd, public MessageOwner {
public:
	static std::expected<std::unique_ptr<RcTransport>, std::string> open(
		async::Loop& loop, const lib::Wish& wish, const RcOptions& options);
	~RcTransport() override;
	RcTransport(const RcTransport&) = delete;
	RcTransport& operator=(const RcTransport&) = delete;

	// The error is for the peer too: the device or the pool has no room for one more.
	std::expected<RcOffer, std::string> offer();
	// The offer's queue pair goes to RTS, and may carry the peer's first frame from before this call returns.
	std::expected<std::unique_ptr<RcChannel>, std::string> connect(
		RcOffer offer, const RcEnd& peer, std::string peer_name);

	const lib::OpenDevice& device() const { return device_; }
	const RcOptions& options() const { return shared_.options; }
	const RcCounters& counters() const { return shared_.counters; }
	async::Loop& loop() const { return shared_.loop; }
	std::size_t channels() const { return channels_; }
	std::size_t units() const { return shared_.units.count(); }
	// Posted and promised to nobody; of RecvMode::per_connection each has its own.
	std::size_t credits_free() const { return shared_receives_ ? shared_receives_->bank().free() : 0; }
	// Receive and send buffers that are not free, registered all the time.
	std::size_t pinned_bytes() const { return std::size_t{shared_.units.in_use()} * shared_.options.unit_bytes; }
	MemoryPool& memory() { return shared_.memory; }
	std::size_t windows_in_use() const { return shared_.windows.in_use(); }
	VerbsObjects objects() const {
		return {.queue_pairs = channels_,
			.completion_queues = cq_ != nullptr,
			.shared_receive_queues = srq_ != nullptr,
			.domains = device_.domain != nullptr,
			.memory_regions = shared_.units.regions() + shared_.memory.regions()};
	}

	// Poller
	std::size_t poll() override;
	bool arm() override;
	void acknowledge() override;
	int descriptor() const override { return events_->fd; }
	// TurnEnd: units go back to the receive queue, and what credits are due leaves.
	void turn_ends() override;
	// MessageOwner: `token` is a Unit, of which one reference ends.
	void release(void* token) override;

	// For its channels.
	//
	// Takes back a unit whose frame the channel refused, and for which the sender had no credit: it is not the
	// channel's to grant again.
	void repost_unpromised(Unit* unit);
	// Takes the channel out of the table; called by its destructor. Its queue pair may be destroyed afterwards: nothing
	// arrives for it any more.
	void remove(RcChannel& channel);

private:
	struct Slot {
		RcChannel* channel = nullptr;
		std::uint32_t generation = 0;
	};
	struct Heart final : async::Timer {
		explicit Heart(RcTransport& of) : transport(of) {}
		void expire() override { transport.beat(); }
		RcTransport& transport;
	};
	// A completion that was taken before its turn, and whose it was then.
	struct Early {
		ibv_wc completion;
		ChannelId id;
	};
	using Events = std::unique_ptr<ibv_comp_channel, lib::Destroyer<ibv_destroy_comp_channel>>;
	using SharedReceiveQueue = std::unique_ptr<ibv_srq, lib::Destroyer<ibv_destroy_srq>>;

	RcTransport(async::Loop& loop, const RcOptions& options, lib::OpenDevice device);
	std::expected<void, std::string> start();

	void repost(Unit* unit);  // at the end of the turn
	void beat();
	void prefetch(std::span<const ibv_wc> completions) const;
	void handle(const ibv_wc& completion, RcChannel* channel);
	std::size_t handle_early();
	void return_to_own(Unit* list);
	void flush_starved();
	std::size_t feed_hungry();
	RcChannel* channel_at(ChannelId id) const;
	RcChannel* channel_of(const Unit& unit) const { return channel_at({unit.slot, unit.generation}); }
	RcChannel* channel_of(std::uint32_t qpn) const;
	ChannelId reserve_slot();
	void add(RcChannel& channel);

	lib::OpenDevice device_;
	Events events_;
	lib::CompletionQueue cq_;
	SharedReceiveQueue srq_;
	RcShared shared_;
	std::unique_ptr<ReceiveQueue> shared_receives_;  // RecvMode::srq
	Unit* to_post_ = nullptr;
	bool memory_freed_ = false;
	std::vector<Slot> slots_;
	std::vector<std::uint32_t> free_slots_;
	QpnTable table_;
	std::vector<Early> early_;
	std::size_t channels_ = 0;
	unsigned unacknowledged_ = 0;
	Heart heart_{*this};
	std::size_t next_beat_ = 0;  // the slot
};

}  // namespace verbena::channel

// SPDX-License-Identifier: Apache-2.0
// RcTransport: the objects that the RC channels of one loop have in common. These are the device,
// one completion queue, the shared receive queue, the pools (rc_shared.h), and the table that maps
// a completion's queue pair number to its channel.
//
// As a poller of its loop it takes completions in batches and hands each to its channel. Units
// whose messages the program has released go back to the receive queues at the end of a turn.
//
// The queue pair of a destroyed channel that used the shared receive queue drains before it is
// destroyed (drain.h). Until then it counts towards `connections_max`.
//
// Heartbeats: a reliable connection notices that its peer is gone only when it sends. So the
// transport looks at each channel about once a second, and a channel that has sent nothing since
// the last look sends an RDMA WRITE of no bytes. The transport looks at no more than 2,000 channels
// a second, so with more channels each has its turn less often.
//
// Processes of the same user can ask for the credits of the channels (status_door.h, `verbena
// top`); until one asks, this costs a descriptor.
//
// Threads: the loop's thread.
// Owns: the device and all verbs objects except the queue pairs of channels and offers, and the
//   receive queues that these have of their own.
// Lifetime: destroyed after its channels, their messages, buffers and leases.
// Errors: open(), offer() and connect() return a sentence. A failed completion ends only the
//   channel to which it belongs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/channel/drain.h"
#include "lib/channel/qpn_table.h"
#include "lib/channel/rc_end.h"
#include "lib/channel/rc_shared.h"
#include "lib/channel/receive_queue.h"
#include "lib/channel/status.h"
#include "lib/channel/status_door.h"
#include "lib/verbs/device.h"
#include "lib/verbs/queue_pair.h"

namespace verbena::channel {

class RcChannel;

// The deleter of a Share, which stands for the `units` receive buffers that are reserved for a
// connection in set-up. They go back to the CreditBank when the Share is destroyed, unless a
// channel has taken them over.
struct ReturnShare {
	std::uint32_t units = 0;
	void operator()(CreditBank* bank) const { bank->posted(units); }
};
using Share = std::unique_ptr<CreditBank, ReturnShare>;

// A queue pair that waits for its peer's parameters. Destroyed before its transport.
struct RcOffer {
	std::unique_ptr<ReceiveQueue> own_receives;  // RecvMode::per_connection only
	Share share;
	lib::MadeQueuePair made;
	RcEnd end;  // this end's parameters, for the peer
};

// The verbs objects of a transport that exist now; queue pairs count once they are connected.
struct VerbsObjects {
	std::size_t queue_pairs = 0, completion_queues = 0, shared_receive_queues = 0, domains = 0, memory_regions = 0;
};

class RcTransport final : public async::Poller, public async::TurnEnd, public MessageOwner {
public:
	// Opens the best device that satisfies `wish`. options() then has the given options, adjusted
	// to the limits of the device.
	static std::expected<std::unique_ptr<RcTransport>, std::string> open(
		async::Loop& loop, const lib::DeviceRequest& wish, const RcOptions& options);
	~RcTransport() override;
	RcTransport(const RcTransport&) = delete;
	RcTransport& operator=(const RcTransport&) = delete;

	// Makes a queue pair and reserves its receive buffers. The error is a sentence that says why
	// there is no room for one more connection; a server sends it to its client.
	std::expected<RcOffer, std::string> offer();
	// Connects the offer's queue pair to that of the peer, up to the state RTS. The peer's first
	// frame may arrive before connect() returns.
	std::expected<std::unique_ptr<RcChannel>, std::string> connect(
		RcOffer offer, const RcEnd& peer, std::string peer_name);

	const lib::OpenDevice& device() const { return device_; }
	const RcOptions& options() const { return shared_.options; }
	const RcCounters& counters() const { return shared_.counters; }
	async::Loop& loop() const { return shared_.loop; }
	std::size_t channels() const { return channels_; }
	// Queue pairs of destroyed channels that still exist.
	std::size_t draining() const { return drain_ ? drain_->size() : 0; }
	bool full() const { return channels_ + draining() >= shared_.options.connections_max; }
	std::size_t units() const { return shared_.units.count(); }  // all that exist, free or not
	// Receive buffers that are posted and not granted to a connection; 0 with per_connection.
	std::size_t credits_free() const { return shared_receives_ ? shared_receives_->bank().free() : 0; }
	// Bytes of units in use, for receiving or sending.
	std::size_t pinned_bytes() const { return std::size_t{shared_.units.in_use()} * shared_.options.unit_bytes; }
	MemoryPool& memory() { return shared_.memory; }
	std::size_t windows_in_use() const { return shared_.windows.in_use(); }
	VerbsObjects objects() const {
		return {.queue_pairs = channels_ + draining(),
			.completion_queues = cq_ != nullptr,
			.shared_receive_queues = srq_ != nullptr,
			.domains = device_.domain != nullptr,
			.memory_regions = shared_.units.regions() + shared_.memory.regions()};
	}

	// The channels now, those that wait before the others (status.h).
	TransportStatus status() const;

	// Poller
	std::size_t poll() override;
	bool arm() override;
	void acknowledge() override;
	int descriptor() const override { return events_->fd; }
	// TurnEnd: posts released units to the receive queues again, and lets their channels send
	// credit frames that are due.
	void turn_ends() override;
	// MessageOwner: ends one reference to the unit `token`. A unit without references is posted
	// again at the end of the turn.
	void release(void* token) override;

	// The channels call the methods below.
	//
	// Takes back a unit in which a frame arrived that had no credit. That frame used up a unit
	// which backed a credit of another connection, or was free. If the bank of the shared queue has
	// a free unit, that one replaces the used unit, and this unit becomes free when it is posted
	// again. Otherwise posting this unit again only replaces the used one (Unit::ungranted).
	void repost_ungranted(Unit* unit);
	// Removes the channel from the table; called by the channel's destructor. `ended` is its queue
	// pair, in IBV_QPS_ERR, and `granted` the number of receive buffers that its peer had credits
	// for, or that were reserved for its peer.
	void remove(RcChannel& channel, EndedQueuePair ended, std::uint32_t granted);

	// Destroys the queue pairs that still drain, with the buffers that their requests use. A
	// program that frees registered memory of its own before the transport calls it in between;
	// no channel may be made afterwards.
	void abandon_draining() {
		if (drain_) drain_->abandon();
	}

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
	using Events = std::unique_ptr<ibv_comp_channel, lib::Destroyer<ibv_destroy_comp_channel>>;
	using SharedReceiveQueue = std::unique_ptr<ibv_srq, lib::Destroyer<ibv_destroy_srq>>;

	RcTransport(async::Loop& loop, const RcOptions& options, lib::OpenDevice device);
	std::expected<void, std::string> start();

	// Posts the unit to its receive queue at the end of the turn.
	void repost(Unit* unit);
	void beat();
	void prefetch(std::span<const ibv_wc> completions) const;
	void handle(const ibv_wc& completion, RcChannel* channel);
	std::size_t end_drained(std::size_t completions);
	void replace(Unit* unit);
	void return_to_own(Unit* list);
	void resume_waiting_for_units();
	std::size_t resume_waiting_for_memory();
	RcChannel* channel_at(ChannelId id) const;
	RcChannel* channel_of(const Unit& unit) const { return channel_at({unit.slot, unit.generation}); }
	RcChannel* channel_of(std::uint32_t qpn) const;
	ChannelId reserve_slot();
	void add(RcChannel& channel);

	lib::OpenDevice device_;
	Events events_;
	lib::CompletionQueue cq_;
	RcShared shared_;
	// Destroyed before the units of `shared_`, whose memory its receives use.
	SharedReceiveQueue srq_;
	// RecvMode::srq only
	std::unique_ptr<ReceiveQueue> shared_receives_;
	std::unique_ptr<QueuePairDrain> drain_;
	Unit* to_post_ = nullptr;
	bool memory_freed_ = false;
	std::vector<Slot> slots_;
	std::vector<std::uint32_t> free_slots_;
	QpnTable table_;
	std::size_t channels_ = 0;
	unsigned unacknowledged_ = 0;
	Heart heart_{*this};
	std::size_t next_beat_ = 0;  // the slot at which the next beat() begins
	std::optional<StatusDoor> status_door_;
};

}  // namespace verbena::channel

// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/rc_transport.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lib/channel/rc_channel.h"

namespace verbena::channel {
namespace {

constexpr std::uint32_t poll_batch_max = 128;
// The most that fits the handshake's parameters.
constexpr std::uint32_t receive_depth_max = 0xffff;
constexpr unsigned acknowledge_after = 256;
constexpr std::size_t prefetch_above = 64;  // channels; fewer of them stay in the cache
constexpr Nanoseconds beat_interval = 100'000'000;
constexpr std::size_t beats_per_second = 10, channels_per_beat_max = 200;

// No remote access: a peer gets access to memory only by a window (IBA 10.6.7).
constexpr int memory_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
constexpr unsigned windows_of_type_2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;

}  // namespace

std::expected<std::unique_ptr<RcTransport>, std::string> RcTransport::open(
	async::Loop& loop, const lib::DeviceRequest& wish, const RcOptions& options) {
	auto device = lib::open_best(wish);
	if (!device) return std::unexpected(device.error());
	std::unique_ptr<RcTransport> transport(new RcTransport(loop, options, std::move(*device)));
	if (auto started = transport->start(); !started) return std::unexpected(started.error());
	return transport;
}

RcTransport::RcTransport(async::Loop& loop, const RcOptions& options, lib::OpenDevice device)
	: device_(std::move(device)), shared_(loop, options, device_.domain.get(), memory_access) {}

std::expected<void, std::string> RcTransport::start() {
	shared_.options.poll_batch = std::clamp(shared_.options.poll_batch, 1u, poll_batch_max);
	shared_.options.message_max = std::min(shared_.options.message_max, MessageHeader::length_max);
	shared_.options.eager_max = std::min(shared_.options.eager_max, MessageHeader::length_max);
	shared_.options.share_min = std::max(shared_.options.share_min, 1u);
	// Some devices have no shared receive queues, for example Intel's E810.
	if (device_.attributes.max_srq == 0) shared_.options = with_own_receives(shared_.options);
	if (shared_.options.recv_mode == RecvMode::srq)
		shared_.options.units_max =
			std::min(shared_.options.units_max, static_cast<std::uint32_t>(device_.attributes.max_srq_wr));
	if ((device_.attributes.device_cap_flags & windows_of_type_2) == 0) shared_.options.direct_depth = 0;
	shared_.options.reads = shared_.options.direct_depth == 0
		? 0u
		: std::min({shared_.options.reads, static_cast<std::uint32_t>(device_.attributes.max_qp_rd_atom),
			  static_cast<std::uint32_t>(device_.attributes.max_qp_init_rd_atom), 255u});
	ibv_context* const context = device_.context.get();

	events_.reset(ibv_create_comp_channel(context));
	if (!events_) return std::unexpected(lib::failure("ibv_create_comp_channel", errno));
	fcntl(events_->fd, F_SETFL, fcntl(events_->fd, F_GETFL) | O_NONBLOCK);

	// Room for every completion that can be outstanding: one for each posted unit, and for each
	// connection its sending units, two signalled inline frames and its direct operations.
	const std::uint64_t entries = shared_.options.units_max +
		std::uint64_t{shared_.options.connections_max} *
			(shared_.options.send_units_max + 2 + shared_.options.direct_depth);
	const int depth =
		static_cast<int>(std::min<std::uint64_t>(entries, static_cast<std::uint64_t>(device_.attributes.max_cqe)));
	cq_.reset(ibv_create_cq(context, depth, nullptr, events_.get(), 0));
	if (!cq_) return std::unexpected(lib::failure("ibv_create_cq", errno));

	shared_.options.offers_max = std::min(shared_.options.offers_max, Offers::max);
	shared_.memory.on_freed([this] { memory_freed_ = true; });
	if (shared_.options.recv_mode == RecvMode::srq) {
		ibv_srq_init_attr srq{.attr = {.max_wr = shared_.options.units_max, .max_sge = 1}};
		srq_.reset(ibv_create_srq(device_.domain.get(), &srq));
		if (!srq_) return std::unexpected(lib::failure("ibv_create_srq", errno));
		shared_receives_ = std::make_unique<ReceiveQueue>(shared_.units, shared_.counters.receive_posts, srq_.get());
		if (!shared_receives_->grow(shared_.options.units_start))
			return std::unexpected("no memory for the receive buffers: raise the limit of locked memory (ulimit -l)");
		drain_ = std::make_unique<QueuePairDrain>(shared_.loop, cq_.get());
	} else {
		shared_.options.window.first = shared_.options.window.max = shared_.options.receive_depth;
	}
	shared_.options.window.max = std::clamp(shared_.options.window.max, 1u, receive_depth_max);
	shared_.options.window.first = std::clamp(shared_.options.window.first, 1u, shared_.options.window.max);
	shared_.loop.add(*this);
	status_door_.emplace(shared_.loop, [this] { return render(status()); });
	return {};
}

RcTransport::~RcTransport() {
	check(channels_ == 0, "channels are destroyed before their transport");
	shared_.loop.cancel(heart_);
	if (events_) shared_.loop.remove(*this);
	if (unacknowledged_ > 0) ibv_ack_cq_events(cq_.get(), unacknowledged_);
	drain_.reset();  // its buffers go back to the pool, which calls this object
}

std::expected<RcOffer, std::string> RcTransport::offer() {
	const std::uint32_t needed = ReceiveCredits::needed(shared_.options.window);
	if (full()) return std::unexpected("the server is full");
	const bool own = shared_.options.recv_mode == RecvMode::per_connection;
	auto made = lib::make_queue_pair(device_, cq_.get(),
		{.send_depth = shared_.options.send_depth + shared_.options.direct_depth,
			.receive_depth = own ? needed + shared_.options.offers_max : 0,
			.send_sge_max = 3,
			.inline_wanted = shared_.options.inline_max,
			.shared_receives = srq_.get()});
	if (!made) return std::unexpected(made.error());
	std::unique_ptr<ReceiveQueue> own_receives;
	if (own)
		own_receives = std::make_unique<ReceiveQueue>(shared_.units, shared_.counters.receive_posts, made->qp.get());
	ReceiveQueue& receives = own ? *own_receives : *shared_receives_;
	// The queue pair must allow READs and WRITEs for windows to work, and WRITEs for the peer's
	// heartbeats, which have no bytes. No memory region allows any.
	const int remote_access = IBV_ACCESS_REMOTE_WRITE | (shared_.options.direct_depth > 0 ? IBV_ACCESS_REMOTE_READ : 0);
	if (auto done = lib::rc_to_init(made->qp.get(), device_, remote_access); !done)
		return std::unexpected(done.error());
	if (!receives.take(needed, own ? needed : shared_.options.units_low)) {
		made->qp.reset();
		return std::unexpected("the server has no receive buffers left");
	}
	const std::uint32_t qpn = made->qp->qp_num;
	return RcOffer{.own_receives = std::move(own_receives),
		.share = Share(&receives.bank(), {needed}),
		.made = std::move(*made),
		.end = {.qpn = qpn,
			.psn = lib::random_psn(),
			.lid = device_.port.lid,
			.gid = device_.choice.gid,
			.mtu_bytes = device_.mtu_bytes(),
			.unit_bytes = shared_.options.unit_bytes,
			.credits = shared_.options.window.first,
			.receive_depth = shared_.options.window.max,
			.eager_max = shared_.options.eager_max,
			.reads = shared_.options.reads}};
}

std::expected<std::unique_ptr<RcChannel>, std::string> RcTransport::connect(
	RcOffer offer, const RcEnd& peer, std::string peer_name) {
	const std::uint32_t local_psn = offer.end.psn;
	ReceiveQueue& receives = offer.own_receives ? *offer.own_receives : *shared_receives_;
	auto channel = std::make_unique<RcChannel>(
		*this, shared_, reserve_slot(), receives, std::move(offer), peer, std::move(peer_name));
	// The channel must be in the table before the queue pair can receive its first frame.
	add(*channel);
	const auto connected = lib::rc_connect(channel->queue_pair(), device_,
		{.qpn = peer.qpn, .psn = peer.psn, .lid = peer.lid, .gid = peer.gid},
		{.mtu_bytes = std::min(device_.mtu_bytes(), peer.mtu_bytes),
			.local_psn = local_psn,
			.reads_as_target = static_cast<std::uint8_t>(channel->reads()),
			.reads_as_requester = static_cast<std::uint8_t>(channel->reads())});
	if (!connected) return std::unexpected(connected.error());
	++shared_.counters.channels_opened;
	return channel;
}

TransportStatus RcTransport::status() const {
	TransportStatus status{.pid = static_cast<std::uint32_t>(getpid()),
		.uid = geteuid(),
		.channels_open = channels_,
		.credits_free = credits_free(),
		.device = device_.choice.device,
		.program = program_invocation_short_name};
	for (const bool waits : {true, false}) {
		for (const Slot& slot : slots_) {
			if (status.channels.size() == TransportStatus::described_max) return status;
			if (slot.channel != nullptr && (slot.channel->wait() != RcChannel::Wait::nothing) == waits)
				status.channels.push_back(slot.channel->status());
		}
	}
	return status;
}

std::size_t RcTransport::poll() {
	std::array<ibv_wc, poll_batch_max> completions;
	const int count = ibv_poll_cq(cq_.get(), static_cast<int>(shared_.options.poll_batch), completions.data());
	const std::span<const ibv_wc> taken(completions.data(), static_cast<std::size_t>(std::max(count, 0)));
	if (channels_ > prefetch_above) prefetch(taken);
	for (const ibv_wc& completion : taken) handle(completion, channel_of(completion.qp_num));
	std::size_t work = taken.size();
	if (draining() > 0) work += end_drained(taken.size());
	if (!shared_.waiting_for_units.empty()) resume_waiting_for_units();
	if (std::exchange(memory_freed_, false) && !shared_.waiting_for_memory.empty()) work += resume_waiting_for_memory();
	return work;
}

// With thousands of channels, the channel of a completion is rarely in the cache. So the channels
// of a whole batch are prefetched before the first completion is handled.
void RcTransport::prefetch(std::span<const ibv_wc> completions) const {
	std::array<const RcChannel*, poll_batch_max> channels;
	for (std::size_t i = 0; i < completions.size(); ++i) {
		const ibv_wc& completion = completions[i];
		channels[i] = channel_of(completion.qp_num);
		if (channels[i] != nullptr) verbena::prefetch(channels[i], sizeof(RcChannel));
		if (!(completion.wr_id & send_mark))
			verbena::prefetch(reinterpret_cast<const Unit*>(completion.wr_id), sizeof(Unit));
	}
	for (const RcChannel* const channel : std::span(channels).first(completions.size()))
		if (channel != nullptr) channel->prefetch();
}

// A poll has taken this number of completions. Returns the number of queue pairs that it has
// destroyed.
std::size_t RcTransport::end_drained(std::size_t completions) {
	const std::size_t before = draining();
	shared_receives_->bank().posted(drain_->polled(completions));
	return before - draining();
}

void RcTransport::handle(const ibv_wc& completion, RcChannel* channel) {
	if (completion.wr_id & send_mark) {
		++shared_.counters.send_completions;
		if (channel == nullptr) return;  // the channel was destroyed meanwhile
		if (completion.status == IBV_WC_SUCCESS)
			channel->handle_sent(static_cast<std::uint32_t>(completion.wr_id >> 1));
		else channel->handle_failure(completion.status);
		return;
	}
	auto* const unit = reinterpret_cast<Unit*>(completion.wr_id);
	if (shared_.options.recv_mode == RecvMode::per_connection) {
		if (channel == nullptr) return;  // its receive queue has given the unit back
		channel->receives().handle_arrival(unit);
	}
	unit->length = completion.byte_len;
	unit->references = 1;
	unit->ungranted = false;
	// The unit was granted to a connection that is gone, or fails now: its grants go back to the
	// bank as a whole, so this unit must not be counted again.
	if (channel == nullptr && drain_->contains(completion.qp_num)) return replace(unit);
	if (channel == nullptr || completion.status != IBV_WC_SUCCESS) {
		if (channel != nullptr) channel->handle_failure(completion.status);
		return repost_ungranted(unit);
	}
	unit->slot = channel->id().slot;
	unit->generation = channel->id().generation;
	++shared_.counters.frames_received;
	shared_.counters.bytes_received += completion.byte_len;
	channel->handle_frame(unit);
}

bool RcTransport::arm() {
	if (ibv_req_notify_cq(cq_.get(), 0) != 0) return false;
	return poll() == 0;
}

void RcTransport::acknowledge() {
	ibv_cq* cq = nullptr;
	void* context = nullptr;
	while (ibv_get_cq_event(events_.get(), &cq, &context) == 0) ++unacknowledged_;
	if (unacknowledged_ < acknowledge_after) return;
	ibv_ack_cq_events(cq_.get(), unacknowledged_);
	unacknowledged_ = 0;
}

void RcTransport::release(void* token) {
	auto* const unit = static_cast<Unit*>(token);
	if (--unit->references == 0) repost(unit);
}

// The frame used up a unit that was not granted for it. If the bank has a free unit, that one is
// taken out in exchange, and posting this unit adds one again; otherwise this unit still backs
// another connection's credit, and posting it must not add a free one.
void RcTransport::repost_ungranted(Unit* unit) {
	replace(unit);
	unit->ungranted = !shared_receives_ || !shared_receives_->bank().take(1);
}

// Posts the unit again without making one more free to be granted.
void RcTransport::replace(Unit* unit) {
	unit->slot = QpnTable::none;
	unit->ungranted = true;
	repost(unit);
}

void RcTransport::resume_waiting_for_units() {
	for (const ChannelId id : std::exchange(shared_.waiting_for_units, {}))
		if (RcChannel* const channel = channel_at(id)) channel->handle_units();
}

std::size_t RcTransport::resume_waiting_for_memory() {
	const auto hungry = std::exchange(shared_.waiting_for_memory, {});
	for (const ChannelId id : hungry)
		if (RcChannel* const channel = channel_at(id)) channel->handle_memory();
	return hungry.size();
}

void RcTransport::repost(Unit* unit) {
	unit->next = to_post_;
	to_post_ = unit;
	shared_.loop.at_turn_end(*this);
}

void RcTransport::turn_ends() {
	Unit* const list = std::exchange(to_post_, nullptr);
	if (!shared_receives_) return return_to_own(list);
	CreditBank& bank = shared_receives_->bank();
	shared_receives_->post(list);
	for (Unit *unit = list, *next; unit != nullptr; unit = next) {
		next = unit->next;
		if (RcChannel* const channel = channel_of(*unit)) channel->handle_posted();
		else if (!unit->ungranted) bank.posted(1);
	}
	if (bank.free() < shared_.options.units_low) shared_receives_->grow(shared_.options.units_low);
}

// Posts each unit to the receive queue of its connection; units go back to the pool if their
// connection is gone or has posted another unit instead.
void RcTransport::return_to_own(Unit* list) {
	for (Unit *unit = list, *next; unit != nullptr; unit = next) {
		next = unit->next;
		RcChannel* const channel = unit->ungranted ? nullptr : channel_of(*unit);
		if (channel == nullptr) {
			shared_.units.give_back(unit);
		} else {
			channel->receives().post_one(unit);
			channel->handle_posted();
		}
	}
	if (!shared_.waiting_for_units.empty()) resume_waiting_for_units();
}

void RcTransport::beat() {
	const std::size_t count = std::min(slots_.size() / beats_per_second + 1, channels_per_beat_max);
	for (std::size_t i = 0; i < count; ++i, ++next_beat_) {
		if (next_beat_ >= slots_.size()) next_beat_ = 0;
		if (slots_[next_beat_].channel != nullptr) slots_[next_beat_].channel->beat();
	}
	if (channels_ > 0) shared_.loop.schedule(heart_, monotonic_now() + beat_interval);
}

RcChannel* RcTransport::channel_at(ChannelId id) const {
	if (id.slot >= slots_.size() || slots_[id.slot].generation != id.generation) return nullptr;
	return slots_[id.slot].channel;
}

RcChannel* RcTransport::channel_of(std::uint32_t qpn) const {
	const std::uint32_t slot = table_.find(qpn);
	return slot == QpnTable::none ? nullptr : slots_[slot].channel;
}

ChannelId RcTransport::reserve_slot() {
	if (free_slots_.empty()) {
		free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
		slots_.emplace_back();
	}
	const std::uint32_t slot = free_slots_.back();
	free_slots_.pop_back();
	return {slot, slots_[slot].generation};
}

void RcTransport::add(RcChannel& channel) {
	slots_[channel.id().slot].channel = &channel;
	table_.insert(channel.queue_pair()->qp_num, channel.id().slot);
	if (++channels_ == 1) shared_.loop.schedule(heart_, monotonic_now() + beat_interval);
}

// Frames that have still arrived for the channel took units out of the shared receive queue, and
// only their completions say which units, so the queue pair drains. The units of a receive queue of
// its own are known, so that one is destroyed at once.
void RcTransport::remove(RcChannel& channel, EndedQueuePair ended, std::uint32_t granted) {
	table_.erase(ended.qp->qp_num);
	Slot& slot = slots_[channel.id().slot];
	slot.channel = nullptr;
	++slot.generation;
	free_slots_.push_back(channel.id().slot);
	--channels_;
	++shared_.counters.channels_closed;
	if (drain_) drain_->add(std::move(ended), granted);
}

}  // namespace verbena::channel

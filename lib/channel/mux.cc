// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/mux.h"

#include <algorithm>

namespace verbena::channel {
namespace {

using async::Task;

constexpr std::uint32_t mux_version = 1;
// All control frames that one channel can have pending.
constexpr std::size_t pending_bytes_max = 40;
// The most resets that may wait for the carrier, besides one for each channel. Only a peer that
// opens again and again without reading causes more, and it loses the carrier.
constexpr std::size_t resets_ahead_max = 8192;

std::string_view text_of(MuxReset why) {
	switch (why) {
		case MuxReset::gone: return "the peer has destroyed this channel";
		case MuxReset::full: return "the peer already has as many channels as it admits";
		case MuxReset::not_in_time: return "the peer closed this channel and waited too long for this end to close it";
		case MuxReset::no_memory: return "the peer has no memory for a message";
	}
	return "the peer has ended this channel";
}

}  // namespace

MuxCounters& MuxCounters::operator+=(const MuxCounters& other) {
	for (auto member : {&MuxCounters::opened, &MuxCounters::refused, &MuxCounters::closed, &MuxCounters::reset,
			 &MuxCounters::messages_sent, &MuxCounters::messages_received, &MuxCounters::frames_sent,
			 &MuxCounters::frames_received, &MuxCounters::batches_sent, &MuxCounters::batches_received,
			 &MuxCounters::credit_frames, &MuxCounters::bytes_sent, &MuxCounters::bytes_received})
		this->*member += other.*member;
	return *this;
}

Mux::Mux(async::Loop& loop, Side side, Path carrier, const MuxOptions& options, Wake wake, Deliver deliver)
	: loop_(loop), side_(side), options_(options), wake_(std::move(wake)), deliver_(std::move(deliver)) {
	carrier.transport += "+mux";
	path_ = std::make_shared<const Path>(std::move(carrier));
	options_.window = std::clamp(options_.window, mux_window_min, mux_window_max);
	options_.channels_max = std::min(options_.channels_max, MuxId::slots_max);
}

Mux::~Mux() { end(Trouble::lost, path_->peer + ": the carrier of this channel was destroyed"); }

Task<Mux::Opened> Mux::open(std::uint32_t label) {
	check(side_ == Side::opener, "the side that connected opens channels");
	++waiting_;
	while (!peer_known_ && !ended_) co_await async::Park(openers_);
	--waiting_;
	if (ended_) co_return std::unexpected(reason_);
	const auto id = free_id();
	if (!id) co_return std::unexpected(id.error());
	std::unique_ptr<MuxChannel> channel(new MuxChannel(*this, *id, label));
	add(*channel);
	channel->owe(MuxChannel::PendingFrame::open);
	while (!channel->open_ && !channel->ended_) co_await async::Park(channel->receivers_);
	if (!channel->open_) co_return std::unexpected(channel->reason_);
	co_return std::move(channel);
}

std::expected<std::uint32_t, std::string> Mux::free_id() {
	if (free_slots_.empty()) {
		if (slots_.size() >= std::min(peer_channels_max_, MuxId::slots_max))
			return std::unexpected(path_->peer + " admits " + std::to_string(peer_channels_max_) +
				" channels on one carrier: close some, or use more carriers");
		free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
		slots_.emplace_back();
	}
	const std::uint32_t slot = free_slots_.back();
	free_slots_.pop_back();
	return MuxId::of(slot, slots_[slot].generation);
}

void Mux::add(MuxChannel& channel) {
	slots_[MuxId::slot(channel.id_)].channel = &channel;
	++channels_;
	++counters_.opened;
}

void Mux::remove(MuxChannel& channel) {
	Slot& slot = slots_[MuxId::slot(channel.id_)];
	slot.channel = nullptr;
	--channels_;
	if (side_ == Side::opener) {
		++slot.generation;
		free_slots_.push_back(MuxId::slot(channel.id_));
	}
	static_cast<detail::MuxUrgent&>(channel).unlink();
	static_cast<detail::MuxActive&>(channel).unlink();
	if (in_turn_ == &channel) in_turn_ = nullptr;
	channel.mux_ = nullptr;
}

MuxChannel* Mux::find(std::uint32_t id) const {
	const std::uint32_t slot = MuxId::slot(id);
	if (slot >= slots_.size()) return nullptr;
	MuxChannel* const channel = slots_[slot].channel;
	return channel != nullptr && channel->id_ == id ? channel : nullptr;
}

void Mux::reset(std::uint32_t id, MuxReset why) {
	++counters_.reset;
	resets_.emplace_back(id, why);
	wake();
}

void Mux::end(Trouble trouble, const std::string& reason) {
	if (ended_) return;
	ended_ = true;
	reason_ = reason;
	for (const Slot& slot : slots_)
		if (slot.channel != nullptr) slot.channel->fail(trouble, reason, std::nullopt);
	loop_.resume_soon(openers_);
}

// Sending.

void Mux::wake() {
	if (woken_ || ended_) return;
	woken_ = true;
	wake_();
}

void Mux::owe(MuxChannel& channel) {
	if (detail::MuxUrgent& urgent = channel; !urgent.linked()) urgent_.push_back(urgent);
	wake();
}

void Mux::activate(MuxChannel& channel) {
	if (detail::MuxActive& active = channel; !active.linked()) active_.push_back(active);
	wake();
}

void Mux::put(std::vector<std::byte>& into, std::uint32_t id, MuxKind kind,
	std::initializer_list<std::span<const std::byte>> payload) {
	std::size_t length = 0;
	for (const auto& each : payload) length += each.size();
	const MuxFrame frame{.id = id, .kind = kind, .length = static_cast<std::uint16_t>(length)};
	const auto header = std::as_bytes(std::span(&frame, 1));
	into.insert(into.end(), header.begin(), header.end());
	for (const auto& each : payload) into.insert(into.end(), each.begin(), each.end());
	++counters_.frames_sent;
}

std::vector<std::byte>* Mux::place_for(MuxChannel& channel, std::size_t payload, std::uint32_t charge) {
	if (channel.has_pending_frame(MuxChannel::PendingFrame::accept) || channel.send_.available() < charge) {
		blocked_ = Blocked::credit;  // sending our accept, or a credit frame, makes it active again
		return nullptr;
	}
	if (visited_ == &channel) {
		blocked_ = !room_for(*visited_batch_, payload) ? Blocked::room
			: channel.deficit_ < charge                ? Blocked::quantum
													   : Blocked::no;
		if (blocked_ != Blocked::no) return nullptr;
		channel.deficit_ -= charge;
		return visited_batch_;
	}
	if (active_.empty() && room_for(next_, payload)) {
		wake();
		return &next_;
	}
	activate(channel);
	return nullptr;
}

void Mux::put_pending_frames(MuxChannel& channel) {
	using PendingFrame = MuxChannel::PendingFrame;
	static_cast<detail::MuxUrgent&>(channel).unlink();
	const std::uint32_t id = channel.id_;
	if (channel.has_pending_frame(PendingFrame::open))
		put(next_, id, MuxKind::open, {bytes_of_number(channel.label_), bytes_of_number(options_.window)});
	if (channel.has_pending_frame(PendingFrame::accept)) {
		put(next_, id, MuxKind::accept, {bytes_of_number(options_.window)});
		if (!channel.senders_.empty()) activate(channel);
	}
	if (channel.has_pending_frame(PendingFrame::credit)) {
		const std::uint32_t limit = channel.receive_.tell();
		put(next_, id, MuxKind::credit, {bytes_of_number(limit)});
		++counters_.credit_frames;
	}
	const bool close = channel.has_pending_frame(PendingFrame::close);
	channel.pending_frames_ = 0;
	if (!close) return;
	put(next_, id, MuxKind::close, {});
	channel.close_sent_ = true;
	channel.finish_close();
}

// Deficit round robin: each turn of a channel adds one frame of the largest size to its deficit
// counter, and the channel sends until the counter is used up. The rest is kept for its next turn,
// and forfeited when the channel has nothing to send or waits for credits.
void Mux::visit_active(std::vector<std::byte>& batch) {
	while (!active_.empty() && room_for(batch, 0)) {
		auto& channel = static_cast<MuxChannel&>(active_.front());
		if (in_turn_ == nullptr) channel.deficit_ += options_.frame_bytes + mux_charge;
		in_turn_ = visited_ = &channel;
		visited_batch_ = &batch;
		blocked_ = Blocked::no;
		channel.advance_senders();
		visited_ = nullptr;
		if (in_turn_ == nullptr) continue;  // the channel has failed
		if (!channel.senders_.empty() && blocked_ == Blocked::room) return;
		in_turn_ = nullptr;
		static_cast<detail::MuxActive&>(channel).unlink();
		if (!channel.senders_.empty() && blocked_ == Blocked::quantum) {
			active_.push_back(channel);
		} else {
			channel.deficit_ = 0;
			channel.finish_close();
		}
	}
}

bool Mux::take(std::vector<std::byte>& batch) {
	batch.clear();
	if (ended_) return false;
	if (!hello_sent_) {
		hello_sent_ = true;
		put(batch, 0, MuxKind::hello,
			{bytes_of_number(mux_version), bytes_of_number(options_.channels_max),
				bytes_of_number(options_.message_max)});
	} else {
		// Frames that were put directly into next_ go first: later frames of their channels must
		// not overtake them.
		if (next_.empty() || next_.size() + pending_bytes_max <= options_.batch_bytes) {
			// Resets go before opens: an open may reuse the place in the table of a channel that a
			// reset ends.
			while (!resets_.empty() && room_for(next_, pending_bytes_max)) {
				const auto [id, why] = resets_.back();
				resets_.pop_back();
				const auto reason = static_cast<std::uint32_t>(why);
				put(next_, id, MuxKind::reset, {bytes_of_number(reason)});
			}
			while (!urgent_.empty() && room_for(next_, pending_bytes_max))
				put_pending_frames(static_cast<MuxChannel&>(urgent_.front()));
		}
		std::swap(batch, next_);
		visit_active(batch);
	}
	if (batch.empty()) {
		woken_ = false;
		return false;
	}
	++counters_.batches_sent;
	counters_.bytes_sent += batch.size();
	return true;
}

// Receiving.

std::expected<void, std::string> Mux::handle(std::span<const std::byte> batch) {
	++counters_.batches_received;
	counters_.bytes_received += batch.size();
	while (!batch.empty() && !ended_) {
		const auto frame = MuxFrame::read(batch);
		std::string_view wrong = "a frame that does not fit its message";
		if (frame) {
			++counters_.frames_received;
			wrong = handle_frame(*frame, batch.subspan(MuxFrame::bytes, frame->length));
			batch = batch.subspan(MuxFrame::bytes + frame->length);
		}
		if (!wrong.empty())
			return std::unexpected(path_->peer + " breaks the protocol of logical channels: " + std::string(wrong));
	}
	return {};
}

std::string_view Mux::handle_frame(const MuxFrame& frame, std::span<const std::byte> payload) {
	if ((frame.kind == MuxKind::hello) == peer_known_) return peer_known_ ? "a second hello" : "no hello first";
	if (frame.kind == MuxKind::hello) {
		const auto numbers = read_numbers<3>(payload);
		if (!numbers || (*numbers)[0] != mux_version) return "a protocol version other than 1";
		peer_channels_max_ = (*numbers)[1];
		peer_message_max_ = (*numbers)[2];
		peer_known_ = true;
		loop_.resume_soon(openers_);
		return {};
	}
	if (frame.kind == MuxKind::open) return handle_open(frame.id, payload);
	MuxChannel* const channel = find(frame.id);
	// A frame for a channel that has ended here is ignored: the peer did not know it when it sent
	// this.
	return channel == nullptr ? std::string_view() : handle_open_channel(*channel, frame, payload);
}

std::string_view Mux::handle_open(std::uint32_t id, std::span<const std::byte> payload) {
	const auto numbers = read_numbers<2>(payload);
	if (side_ != Side::acceptor || !numbers) return "an invalid open";
	const auto [label, window] = *numbers;
	if (window < mux_window_min || window > mux_window_max) return "an invalid window";
	if (resets_.size() > options_.channels_max + resets_ahead_max)
		return "opens again and again without reading the answers";
	const std::uint32_t slot = MuxId::slot(id);
	if (slot >= options_.channels_max) {
		++counters_.refused;
		reset(id, MuxReset::full);
		return {};
	}
	if (slot >= slots_.size()) slots_.resize(slot + 1);
	if (slots_[slot].channel != nullptr) return "an open of an id that is in use";
	std::unique_ptr<MuxChannel> channel(new MuxChannel(*this, id, label));
	add(*channel);
	channel->handle_open(window);
	channel->owe(MuxChannel::PendingFrame::accept);
	deliver_(std::move(channel));
	return {};
}

std::string_view Mux::handle_open_channel(
	MuxChannel& channel, const MuxFrame& frame, std::span<const std::byte> payload) {
	const auto number = read_numbers<1>(payload);
	const bool numbered =
		frame.kind == MuxKind::accept || frame.kind == MuxKind::credit || frame.kind == MuxKind::reset;
	if (numbered && !number) return "a frame whose length does not fit its kind";
	if (!channel.open_ && frame.kind != MuxKind::accept && frame.kind != MuxKind::reset)
		return "a frame before the channel is open";
	switch (frame.kind) {
		case MuxKind::accept:
			if (channel.open_ || (*number)[0] < mux_window_min || (*number)[0] > mux_window_max)
				return "an invalid accept";
			channel.handle_open((*number)[0]);
			return {};
		case MuxKind::credit:
			if (!channel.send_.learn((*number)[0])) return "impossible credits";
			if (!channel.senders_.empty()) activate(channel);
			return {};
		case MuxKind::close: channel.handle_close(); return {};
		case MuxKind::reset:
			channel.fail(Trouble::lost, path_->peer + ": " + std::string(text_of(static_cast<MuxReset>((*number)[0]))),
				std::nullopt);
			return {};
		default: return channel.handle_data(frame.kind, payload);
	}
}

}  // namespace verbena::channel

#include "lib/channel/mux.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace verbena::channel {
namespace {

using async::Task;

constexpr std::uint32_t mux_version = 1;
constexpr std::size_t owed_bytes_max = 40;  // of all that one channel owes

std::span<const std::byte> bytes_of(const std::uint32_t& number) { return std::as_bytes(std::span(&number, 1)); }

std::string_view text_of(MuxReset why) {
	switch (why) {
		case MuxReset::gone: return "the peer has let this channel go";
		case MuxReset::full: return "the peer has as many channels as it admits";
		case MuxReset::not_in_time: return "the peer closed it, and waited too long for its end";
		case MuxReset::no_memory: return "the peer has no memory for a message";
	}
	return "the peer has ended this channel";
}

}  // namespace

struct MuxChannel::Arrived {
	Arrived* next = nullptr;
	std::uint32_t size = 0;
	std::uint32_t charge = 0;  // to be released when the program takes it

	std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
};

void MuxChannel::FreeArrived::operator()(Arrived* arrived) const { std::free(arrived); }

// Null if there is no memory: the size is a peer's word.
MuxChannel::ArrivedBlock MuxChannel::make_arrived(std::size_t size) {
	void* const block = std::malloc(sizeof(Arrived) + size);
	return ArrivedBlock(block == nullptr ? nullptr : new (block) Arrived{.size = static_cast<std::uint32_t>(size)});
}

MuxChannel::MuxChannel(Mux& mux, std::uint32_t id, std::uint32_t label)
	: Channel(mux.loop_), mux_(&mux), path_(mux.path_), id_(id), label_(label), receive_(mux.options_.window) {}

MuxChannel::~MuxChannel() {
	loop_.cancel(*this);
	if (mux_ != nullptr) {
		mux_->reset(id_, MuxReset::gone);
		mux_->remove(*this);
	}
	while (inbox_ != nullptr) ArrivedBlock(std::exchange(inbox_, inbox_->next));
}

Path MuxChannel::path() const { return *path_; }

// Sending.

Channel::Sending::Progress MuxChannel::advance(Sending& sending) {
	using Progress = Sending::Progress;
	const auto refuse = [&](Trouble trouble) {
		sending.trouble = trouble;
		return Progress::failed;
	};
	if (ended_ || closing_) return refuse(ended_ ? trouble_ : Trouble::closed);
	if (sending.size() > std::min(mux_->options_.message_max, mux_->peer_message_max_)) return refuse(Trouble::too_large);
	if (in_message_ && !sending.begun) {
		fail(Trouble::lost, "a send was given up in the middle of its message", MuxReset::gone);
		return refuse(Trouble::lost);
	}
	const std::size_t frame_max = std::min({mux_->options_.frame_bytes, send_.frame_max(), std::uint32_t{MuxFrame::length_max - 4}});
	while (true) {
		const std::size_t length = std::min(sending.size() - sending.offset, frame_max);
		const bool last = sending.offset + length == sending.size();
		const MuxKind kind = sending.begun ? MuxKind::more : last ? MuxKind::whole : MuxKind::first;
		const auto charge = static_cast<std::uint32_t>(length) + mux_charge;
		const auto total = static_cast<std::uint32_t>(sending.size());
		const std::span<const std::byte> front = kind == MuxKind::first ? bytes_of(total) : std::span<const std::byte>();
		std::vector<std::byte>* const place = mux_->place_for(*this, front.size() + length, charge);
		if (place == nullptr) return Progress::waiting;
		const auto slices = sending.slices(sending.offset, length);
		mux_->put(*place, id_, kind, {front, slices[0], slices[1]});
		send_.sent(charge);
		sending.begun = true;
		sending.offset += length;
		in_message_ = !last;
		if (last) break;
	}
	++mux_->counters_.messages_sent;
	return Progress::done;
}

void MuxChannel::owe(Owed what) {
	if (mux_ == nullptr) return;
	owed_ |= static_cast<std::uint8_t>(what);
	mux_->owe(*this);
}

// Receiving.

void MuxChannel::handle_open(std::uint32_t window) {
	open_ = true;
	send_.open(window);
	wake_receiver();  // who waits for it to open
}

std::string_view MuxChannel::handle_data(MuxKind kind, std::span<const std::byte> payload) {
	if (peer_closed_) return "a message after the close";
	if ((kind == MuxKind::more) != (assembly_ != nullptr)) return "the parts of a message out of order";
	std::size_t total = payload.size();
	if (kind == MuxKind::first) {
		std::uint32_t announced = 0;
		if (payload.size() < sizeof announced) return "a first part without a length";
		std::memcpy(&announced, payload.data(), sizeof announced);
		payload = payload.subspan(sizeof announced);
		total = announced;
		if (total <= payload.size()) return "a first part that is all of its message";
	}
	if (total > mux_->options_.message_max) return "a message above the greatest length";
	const auto charge = static_cast<std::uint32_t>(payload.size()) + mux_charge;
	if (!receive_.arrived(charge)) return "a frame without a credit";
	if (kind != MuxKind::more) {
		assembly_ = make_arrived(total);
		assembled_ = 0;
		if (!assembly_) {
			fail(Trouble::no_memory, "no memory for a message of " + std::to_string(total) + " bytes", MuxReset::no_memory);
			return {};
		}
	} else if (payload.size() > assembly_->size - assembled_) {
		return "a message longer than announced";
	}
	if (!payload.empty()) std::memcpy(assembly_->bytes() + assembled_, payload.data(), payload.size());
	assembled_ += static_cast<std::uint32_t>(payload.size());
	assembly_charge_ += charge;
	if (assembled_ == assembly_->size && (kind != MuxKind::first)) deliver();
	else if (inbox_ == nullptr) release_assembly();
	return {};
}

void MuxChannel::deliver() {
	Arrived* const arrived = assembly_.release();
	arrived->charge = std::exchange(assembly_charge_, 0);
	(inbox_ == nullptr ? inbox_ : inbox_last_->next) = arrived;
	inbox_last_ = arrived;
	wake_receiver();
}

// The message that is being put together is the next for the program: it may be larger than the window.
void MuxChannel::release_assembly() {
	receive_.released(std::exchange(assembly_charge_, 0));
	tell_if_due();
}

void MuxChannel::tell_if_due() {
	if (receive_.due() && !peer_closed_) owe(Owed::credit);
}

Channel::Received MuxChannel::next() {
	if (inbox_ == nullptr) return std::unexpected(trouble_);
	struct Owner final : MessageOwner {
		void release(void* token) override { std::free(token); }
	};
	static Owner owner;
	Arrived* const arrived = std::exchange(inbox_, inbox_->next);
	receive_.released(arrived->charge);
	if (inbox_ == nullptr && assembly_) release_assembly();
	else tell_if_due();
	if (mux_ != nullptr) ++mux_->counters_.messages_received;
	return Message({arrived->bytes(), arrived->size}, &owner, arrived);
}

// Closing.

void MuxChannel::handle_close() {
	if (peer_closed_) return;
	peer_closed_ = true;
	assembly_.reset();
	end(Trouble::closed, {});
	finish_close();
}

void MuxChannel::close() {
	if (!closing_ && !ended_) loop_.schedule(*this, loop_.now() + Nanoseconds{mux_->options_.close_timeout_ms} * 1'000'000);
	closing_ = true;
	finish_close();
}

void MuxChannel::finish_close() {
	if (mux_ == nullptr || !open_ || !(closing_ || peer_closed_) || !senders_.empty()) return;
	if (!close_sent_) return owe(Owed::close);
	if (!peer_closed_) return;
	++mux_->counters_.closed;
	mux_->remove(*this);
	loop_.cancel(*this);
	wake_closers();
}

void MuxChannel::fail(Trouble trouble, std::string reason, std::optional<MuxReset> tell) {
	if (lost_ || mux_ == nullptr) return;
	lost_ = true;
	if (tell) mux_->reset(id_, *tell);
	mux_->remove(*this);
	loop_.cancel(*this);
	end(trouble, std::move(reason));
	wake_closers();
}

void MuxChannel::expire() { fail(Trouble::closed, path_->peer + " does not close in time", MuxReset::not_in_time); }

// The channels of one carrier.

MuxCounters& MuxCounters::operator+=(const MuxCounters& other) {
	for (auto member : {&MuxCounters::opened, &MuxCounters::refused, &MuxCounters::closed, &MuxCounters::reset, &MuxCounters::messages_sent,
			 &MuxCounters::messages_received, &MuxCounters::frames_sent, &MuxCounters::frames_received, &MuxCounters::batches_sent,
			 &MuxCounters::batches_received, &MuxCounters::credit_frames, &MuxCounters::bytes_sent, &MuxCounters::bytes_received})
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

Mux::~Mux() { end(Trouble::lost, path_->peer + ": the carrier of this channel is gone"); }

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
	channel->owe(MuxChannel::Owed::open);
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

void Mux::put(std::vector<std::byte>& into, std::uint32_t id, MuxKind kind, std::initializer_list<std::span<const std::byte>> payload) {
	std::size_t length = 0;
	for (const auto& each : payload) length += each.size();
	const MuxFrame frame{.id = id, .kind = kind, .length = static_cast<std::uint16_t>(length)};
	const auto header = std::as_bytes(std::span(&frame, 1));
	into.insert(into.end(), header.begin(), header.end());
	for (const auto& each : payload) into.insert(into.end(), each.begin(), each.end());
	++counters_.frames_sent;
}

std::vector<std::byte>* Mux::place_for(MuxChannel& channel, std::size_t payload, std::uint32_t charge) {
	if (channel.send_.available() < charge) {
		blocked_ = Blocked::credit;  // a credit frame makes it active
		return nullptr;
	}
	if (visited_ == &channel) {
		blocked_ = !room_for(*visited_batch_, payload) ? Blocked::room : channel.deficit_ < charge ? Blocked::quantum : Blocked::no;
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

void Mux::put_owed(MuxChannel& channel) {
	using Owed = MuxChannel::Owed;
	static_cast<detail::MuxUrgent&>(channel).unlink();
	const std::uint32_t id = channel.id_;
	if (channel.owes(Owed::open)) put(next_, id, MuxKind::open, {bytes_of(channel.label_), bytes_of(options_.window)});
	if (channel.owes(Owed::credit)) {
		const std::uint32_t limit = channel.receive_.tell();
		put(next_, id, MuxKind::credit, {bytes_of(limit)});
		++counters_.credit_frames;
	}
	const bool close = channel.owes(Owed::close);
	channel.owed_ = 0;
	if (!close) return;
	put(next_, id, MuxKind::close, {});
	channel.close_sent_ = true;
	channel.finish_close();
}

// Deficit round robin: a turn is worth one frame of the largest size, and what is left of it is kept while there is more to send.
void Mux::visit_active(std::vector<std::byte>& batch) {
	while (!active_.empty() && room_for(batch, 0)) {
		auto& channel = static_cast<MuxChannel&>(active_.front());
		if (in_turn_ != &channel) channel.deficit_ += options_.frame_bytes + mux_charge;
		in_turn_ = visited_ = &channel;
		visited_batch_ = &batch;
		blocked_ = Blocked::no;
		channel.advance_senders();
		visited_ = nullptr;
		if (in_turn_ == nullptr) continue;  // it failed
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
		put(batch, 0, MuxKind::hello, {bytes_of(mux_version), bytes_of(options_.channels_max), bytes_of(options_.message_max)});
	} else {
		// Frames that were put at once go before whatever their channels still have to say.
		if (next_.empty() || next_.size() + owed_bytes_max <= options_.batch_bytes) {
			while (!urgent_.empty() && room_for(next_, owed_bytes_max)) put_owed(static_cast<MuxChannel&>(urgent_.front()));
			while (!resets_.empty() && room_for(next_, owed_bytes_max)) {
				const auto [id, why] = resets_.back();
				resets_.pop_back();
				const auto reason = static_cast<std::uint32_t>(why);
				put(next_, id, MuxKind::reset, {bytes_of(reason)});
			}
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
		std::string_view wrong = "a frame that its message cannot hold";
		if (frame) {
			++counters_.frames_received;
			wrong = handle_frame(*frame, batch.subspan(MuxFrame::bytes, frame->length));
			batch = batch.subspan(MuxFrame::bytes + frame->length);
		}
		if (!wrong.empty()) return std::unexpected(path_->peer + " breaks the protocol of logical channels: " + std::string(wrong));
	}
	return {};
}

std::string_view Mux::handle_frame(const MuxFrame& frame, std::span<const std::byte> payload) {
	if ((frame.kind == MuxKind::hello) == peer_known_) return peer_known_ ? "a second hello" : "no hello first";
	if (frame.kind == MuxKind::hello) {
		const auto numbers = read_numbers<3>(payload);
		if (!numbers || (*numbers)[0] != mux_version) return "another version than 1";
		peer_channels_max_ = (*numbers)[1];
		peer_message_max_ = (*numbers)[2];
		peer_known_ = true;
		loop_.resume_soon(openers_);
		return {};
	}
	if (frame.kind == MuxKind::open) return handle_open(frame.id, payload);
	MuxChannel* const channel = find(frame.id);
	// One that is gone here, which the peer did not know yet.
	return channel == nullptr ? std::string_view() : handle_open_channel(*channel, frame, payload);
}

std::string_view Mux::handle_open(std::uint32_t id, std::span<const std::byte> payload) {
	const auto numbers = read_numbers<2>(payload);
	if (side_ != Side::acceptor || !numbers) return "an open that cannot be";
	const auto [label, window] = *numbers;
	if (window < mux_window_min || window > mux_window_max) return "a window that cannot be";
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
	put(next_, id, MuxKind::accept, {bytes_of(options_.window)});  // before anything else that this channel says
	wake();
	deliver_(std::move(channel));
	return {};
}

std::string_view Mux::handle_open_channel(MuxChannel& channel, const MuxFrame& frame, std::span<const std::byte> payload) {
	const auto number = read_numbers<1>(payload);
	const bool numbered = frame.kind == MuxKind::accept || frame.kind == MuxKind::credit || frame.kind == MuxKind::reset;
	if (numbered && !number) return "a frame of another length than its kind has";
	if (!channel.open_ && frame.kind != MuxKind::accept && frame.kind != MuxKind::reset) return "a frame before the channel is open";
	switch (frame.kind) {
		case MuxKind::accept:
			if (channel.open_ || (*number)[0] < mux_window_min || (*number)[0] > mux_window_max) return "an accept that cannot be";
			channel.handle_open((*number)[0]);
			return {};
		case MuxKind::credit:
			if (!channel.send_.learn((*number)[0])) return "impossible credits";
			if (!channel.senders_.empty()) activate(channel);
			return {};
		case MuxKind::close: channel.handle_close(); return {};
		case MuxKind::reset:
			channel.fail(Trouble::lost, path_->peer + ": " + std::string(text_of(static_cast<MuxReset>((*number)[0]))), std::nullopt);
			return {};
		default: return channel.handle_data(frame.kind, payload);
	}
}

}  // namespace verbena::channel

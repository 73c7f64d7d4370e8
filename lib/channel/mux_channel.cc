// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "lib/channel/mux.h"

namespace verbena::channel {

struct MuxChannel::Arrived {
	Arrived* next = nullptr;
	std::uint32_t size = 0;
	std::uint32_t charge = 0;  // released when the program takes the message

	std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
};

void MuxChannel::FreeArrived::operator()(Arrived* arrived) const { std::free(arrived); }

// Null if there is no memory. Not operator new: the size is a number that the peer has sent.
MuxChannel::ArrivedBlock MuxChannel::make_arrived(std::size_t size) {
	void* const block = std::malloc(sizeof(Arrived) + size);
	return ArrivedBlock(block == nullptr ? nullptr : new (block) Arrived{.size = static_cast<std::uint32_t>(size)});
}

MuxChannel::MuxChannel(Mux& mux, std::uint32_t id, std::uint32_t label)
	: Channel(mux.loop_, std::min(mux.options_.message_max, mux.peer_message_max_)),
	  mux_(&mux),
	  path_(mux.path_),
	  id_(id),
	  label_(label),
	  receive_(mux.options_.window) {}

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
	if (in_message_ && !sending.begun) {
		fail(Trouble::lost, "a send was abandoned in the middle of its message", MuxReset::gone);
		sending.trouble = Trouble::lost;
		return Progress::failed;
	}
	const std::size_t frame_max =
		std::min({mux_->options_.frame_bytes, send_.frame_max(), std::uint32_t{MuxFrame::length_max - 4}});
	while (true) {
		const std::size_t length = std::min(sending.size() - sending.offset, frame_max);
		const bool last = sending.offset + length == sending.size();
		const MuxKind kind = sending.begun ? MuxKind::more : last ? MuxKind::whole : MuxKind::first;
		const auto charge = static_cast<std::uint32_t>(length) + mux_charge;
		const auto total = static_cast<std::uint32_t>(sending.size());
		const std::span<const std::byte> front =
			kind == MuxKind::first ? bytes_of_number(total) : std::span<const std::byte>();
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

void MuxChannel::owe(PendingFrame what) {
	if (mux_ == nullptr) return;
	pending_frames_ |= static_cast<std::uint8_t>(what);
	mux_->owe(*this);
}

// Receiving.

void MuxChannel::handle_open(std::uint32_t window) {
	open_ = true;
	send_.open(window);
	wake_receiver();  // Mux::open() waits as the receiver
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
	if (total > mux_->options_.message_max) return "a message above the largest size";
	const auto charge = static_cast<std::uint32_t>(payload.size()) + mux_charge;
	if (!receive_.arrived(charge)) return "a frame without a credit";
	if (kind != MuxKind::more) {
		assembly_ = make_arrived(total);
		assembled_ = 0;
		if (!assembly_) {
			fail(Trouble::no_memory, "no memory for a message of " + std::to_string(total) + " bytes",
				MuxReset::no_memory);
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

// Releases the charge of the message that is being put together. It is the program's next message,
// so the program cannot release anything before it is complete, and it may be larger than the
// window.
void MuxChannel::release_assembly() {
	receive_.released(std::exchange(assembly_charge_, 0));
	announce_if_due();
}

void MuxChannel::announce_if_due() {
	if (receive_.due() && !peer_closed_) owe(PendingFrame::credit);
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
	else announce_if_due();
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
	if (!closing_ && !ended_)
		loop_.schedule(*this, loop_.now() + Nanoseconds{mux_->options_.close_timeout_ms} * 1'000'000);
	closing_ = true;
	finish_close();
}

void MuxChannel::finish_close() {
	if (mux_ == nullptr || !open_ || !(closing_ || peer_closed_) || !senders_.empty()) return;
	if (!close_sent_) return owe(PendingFrame::close);
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

}  // namespace verbena::channel

// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/frame_sender.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace verbena::channel {
namespace {

using Progress = Channel::Sending::Progress;

ibv_sge piece(const void* at, std::size_t bytes, std::uint32_t lkey = 0) {
	return {.addr = reinterpret_cast<std::uint64_t>(at), .length = static_cast<std::uint32_t>(bytes), .lkey = lkey};
}

}  // namespace

FrameSender::FrameSender(RcOwner& owner, SendQueue& sends, const DirectOperations& direct, ReceiveCredits& grants,
	const async::List<async::Waiter>& senders, const RcEnd& peer, std::uint32_t device_inline_max)
	: owner_(owner),
	  shared_(owner.shared()),
	  sends_(sends),
	  direct_(direct),
	  grants_(grants),
	  senders_(senders),
	  credits_(peer.credits, peer.receive_depth),
	  frame_max_(std::min(peer.unit_bytes, shared_.options.unit_bytes)),
	  inline_max_(std::min({device_inline_max, shared_.options.inline_max, frame_max_})),
	  send_depth_(shared_.options.send_depth) {}

FrameSender::~FrameSender() {
	if (pending_ != nullptr) shared_.units.give_back(pending_);
}

Progress FrameSender::advance(Channel::Sending& sending) {
	if (sending.offset == 0 && MessageHeader::bytes + sending.size() <= payload_max()) {
		const MessageHeader whole{.kind = MessageKind::whole, .length = static_cast<std::uint32_t>(sending.size())};
		if (pending_ == nullptr && has_room() && post_message(sending, whole, sending.size())) return Progress::done;
		if (collect(sending)) return Progress::done;
		ask();
		return Progress::waiting;
	}
	while (sending.offset < sending.size()) {
		if (!may_post_data() || !post_fragment(sending, sending.size() - sending.offset)) return Progress::waiting;
	}
	return Progress::done;
}

bool FrameSender::may_post_data() {
	if (pending_ != nullptr) post_pending();
	if (pending_ == nullptr && has_room()) return true;
	ask();
	return false;
}

bool FrameSender::post_fragment(Channel::Sending& sending, std::size_t length) {
	length = std::min<std::size_t>(length, payload_max() - MessageHeader::bytes);
	const MessageHeader fragment = sending.offset == 0
		? MessageHeader{.kind = MessageKind::first, .length = static_cast<std::uint32_t>(sending.size())}
		: MessageHeader{.kind = MessageKind::more, .length = static_cast<std::uint32_t>(length)};
	if (!post_message(sending, fragment, length)) return false;
	sending.offset += length;
	return true;
}

FrameHeader FrameSender::header(FrameKind kind) {
	FrameHeader header{.kind = kind,
		.credits_seen = grants_.seen(Control::credit),
		.wants_seen = grants_.seen(Control::want),
		.limit = grants_.tell()};
	if (kind == FrameKind::data && credits_.available() == 1 && (pending_ != nullptr || !senders_.empty())) {
		header.flags |= FrameHeader::wants_more;
		asked_ = true;
	}
	return header;
}

// Null: the pool is used up; the channel is resumed when that may have changed.
Unit* FrameSender::take_unit() {
	Unit* const unit = shared_.units.take();
	if (unit == nullptr) owner_.wait_for_units();
	return unit;
}

// Sends a frame with this one message, or a fragment of it. False: there is no unit for it.
bool FrameSender::post_message(const Channel::Sending& sending, MessageHeader message, std::size_t length) {
	std::array<std::byte, MessageHeader::bytes> front;
	message.write(front.data());
	if (!post_data(front, sending.slices(sending.offset, length))) return false;
	shared_.counters.messages_sent += message.kind != MessageKind::more;
	return true;
}

bool FrameSender::post_data(std::span<const std::byte> front, const std::array<std::span<const std::byte>, 2>& slices) {
	const std::size_t headers = FrameHeader::bytes + front.size();
	const std::size_t bytes = headers + slices[0].size() + slices[1].size();
	if (bytes <= inline_max_) {
		std::array<std::byte, FrameHeader::bytes + MessageHeader::bytes + Offer::bytes> begin;
		header(FrameKind::data).write(begin.data());
		std::memcpy(begin.data() + FrameHeader::bytes, front.data(), front.size());
		std::array pieces{piece(begin.data(), headers), ibv_sge{}, ibv_sge{}};
		std::size_t count = 1;
		for (const auto& each : slices)
			if (!each.empty()) pieces[count++] = piece(each.data(), each.size());
		post_frame(std::span(pieces).first(count), nullptr, false);
	} else {
		if (sends_.units() >= shared_.options.send_units_max) return false;
		Unit* const unit = take_unit();
		if (unit == nullptr) return false;
		header(FrameKind::data).write(unit->data);
		std::memcpy(unit->data + FrameHeader::bytes, front.data(), front.size());
		gather(slices, unit->data + headers);
		std::array pieces{piece(unit->data, bytes, unit->lkey)};
		post_frame(pieces, unit, true);
	}
	credits_.data_sent();
	return true;
}

void FrameSender::post_frame(std::span<ibv_sge> pieces, Unit* unit, bool signal) {
	ibv_send_wr request{.sg_list = pieces.data(),
		.num_sge = static_cast<int>(pieces.size()),
		.opcode = IBV_WR_SEND,
		.send_flags = unit == nullptr ? unsigned{IBV_SEND_INLINE} : 0u};
	sends_.post(request, signal);
	RcCounters& counters = shared_.counters;
	++counters.frames_sent;
	for (const ibv_sge& each : pieces) counters.bytes_sent += each.length;
	if (unit == nullptr) ++counters.frames_inline;
	else sends_.keep(unit);
}

// Adds a small message to the pending frame. False: it has no room, or there is no unit for it.
bool FrameSender::collect(const Channel::Sending& sending) {
	if (!shared_.options.coalesce) return false;
	const std::size_t bytes = MessageHeader::bytes + sending.size();
	if (pending_ == nullptr) {
		pending_ = take_unit();
		if (pending_ == nullptr) return false;
		pending_->length = FrameHeader::bytes;
	}
	if (pending_->length + bytes > frame_max_) return false;
	MessageHeader{.kind = MessageKind::whole, .length = static_cast<std::uint32_t>(sending.size())}.write(
		pending_->data + pending_->length);
	gather(sending.slices(0, sending.size()), pending_->data + pending_->length + MessageHeader::bytes);
	pending_->length += static_cast<std::uint32_t>(bytes);
	++shared_.counters.messages_sent;
	++shared_.counters.messages_coalesced;
	ask();
	return true;
}

void FrameSender::post_pending() {
	if (!has_room() || sends_.units() >= shared_.options.send_units_max) return;
	Unit* const unit = std::exchange(pending_, nullptr);
	header(FrameKind::data).write(unit->data);
	std::array pieces{piece(unit->data, unit->length, unit->lkey)};
	post_frame(pieces, unit, true);
	credits_.data_sent();
}

void FrameSender::ask() {
	if (credits_.available() > 0) return;
	if (waits_since_ == 0) waits_since_ = shared_.loop.now();
	if (asked_ || !credits_.may_send(Control::want) || frames_in_flight() >= send_depth_) return;
	asked_ = true;
	post_control(Control::want);
	++shared_.counters.want_frames;
}

void FrameSender::post_credit() {
	if (!credits_.may_send(Control::credit) || frames_in_flight() >= send_depth_) return;
	post_control(Control::credit);
	++shared_.counters.credit_frames;
}

bool FrameSender::post_taken(std::uint32_t count) {
	if (frames_in_flight() >= send_depth_) return false;
	FrameHeader frame = header(FrameKind::taken);
	frame.flags = static_cast<std::uint8_t>(count);
	post_short(frame);
	return true;
}

void FrameSender::post_close() {
	if (!has_room()) return ask();
	std::array<std::byte, FrameHeader::bytes> frame;
	header(FrameKind::close).write(frame.data());
	Unit* const unit = take_unit();
	if (unit == nullptr) return;
	std::memcpy(unit->data, frame.data(), frame.size());
	std::array pieces{piece(unit->data, frame.size(), unit->lkey)};
	close_posted_ = true;
	credits_.data_sent();
	post_frame(pieces, unit, true);
	close_number_ = sends_.posted();
}

// An RDMA WRITE of no bytes: the peer's adapter acknowledges it, or the connection is lost. It
// takes no receive buffer there, and the peer's program need not answer. None is sent before the
// first frame of the peer: while the peer sets up thousands of connections, this queue pair's other
// end may not be ready to receive yet.
void FrameSender::beat() {
	if (heard_ && sends_.posted() == posted_at_beat_ && frames_in_flight() < send_depth_) {
		ibv_send_wr nothing{.opcode = IBV_WR_RDMA_WRITE};
		sends_.post(nothing, false);
		++shared_.counters.heartbeats;
	}
	posted_at_beat_ = sends_.posted();
}

bool FrameSender::learn(const FrameHeader& header) {
	heard_ = true;
	const std::uint32_t before = credits_.available();
	if (!credits_.learn(header.limit, header.credits_seen, header.wants_seen)) return false;
	if (credits_.available() > before) {
		asked_ = false;
		waits_since_ = 0;
	}
	return true;
}

void FrameSender::post_control(Control kind) {
	const FrameHeader frame = header(kind == Control::want ? FrameKind::want : FrameKind::credit);
	credits_.control_sent(kind);
	post_short(frame);
}

void FrameSender::post_short(const FrameHeader& header) {
	std::array<std::byte, FrameHeader::bytes> frame;
	header.write(frame.data());
	if (inline_max_ >= frame.size()) {
		std::array pieces{piece(frame.data(), frame.size())};
		post_frame(pieces, nullptr, false);
		return;
	}
	Unit* const unit = shared_.units.take();
	if (unit == nullptr) return owner_.fail(Trouble::no_memory, "no unit is left to send a control frame");
	std::memcpy(unit->data, frame.data(), frame.size());
	std::array pieces{piece(unit->data, frame.size(), unit->lkey)};
	post_frame(pieces, unit, true);
}

}  // namespace verbena::channel

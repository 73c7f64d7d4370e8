#include "lib/channel/rc_channel.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/verbs/gid.h"

namespace verbena::channel {
namespace {

constexpr std::uint64_t send_mark = 1;

void gather(const std::array<std::span<const std::byte>, 2>& from, std::byte* to) {
	for (const auto& each : from) {
		if (!each.empty()) std::memcpy(to, each.data(), each.size());
		to += each.size();
	}
}

ibv_sge piece(const void* at, std::size_t bytes, std::uint32_t lkey = 0) {
	return {.addr = reinterpret_cast<std::uint64_t>(at), .length = static_cast<std::uint32_t>(bytes), .lkey = lkey};
}

}  // namespace

RcChannel::RcChannel(RcTransport& transport, lib::MadeQueuePair made, const RcEnd& peer, std::string peer_name)
	: Channel(transport.loop()),
	  transport_(transport),
	  qp_(std::move(made.qp)),
	  credits_(peer.credits),
	  frame_max_(std::min(peer.unit_bytes, transport.options().unit_bytes)),
	  inline_max_(std::min({made.inline_max, transport.options().inline_max, frame_max_})),
	  send_depth_(transport.options().send_depth),
	  grants_(transport.options().window),
	  peer_name_(std::move(peer_name)) {}

RcChannel::~RcChannel() {
	loop_.cancel(*this);
	transport_.remove(*this);
	qp_.reset();  // nothing reads the units of frames in flight any more
	for (Unit *unit = in_flight_, *next; unit != nullptr; unit = next) {
		next = unit->next;
		transport_.pool_.give_back(unit);
	}
	if (pending_ != nullptr) transport_.pool_.give_back(pending_);
	while (inbox_ != nullptr) drop_first_unit();
	transport_.bank_.posted(grants_.promised());
}

Path RcChannel::path() const {
	const lib::OpenDevice& device = transport_.device();
	return {.transport = "rc",
		.device = device.choice.device,
		.gid = lib::format_gid(device.choice.gid),
		.mtu = device.mtu_bytes(),
		.peer = peer_name_};
}

// Sending.

Channel::Sending::Progress RcChannel::advance(Sending& sending) {
	using Progress = Sending::Progress;
	const auto refuse = [&](Trouble trouble) {
		sending.trouble = trouble;
		return Progress::failed;
	};
	if (ended_ || closing_) return refuse(ended_ ? trouble_ : Trouble::closed);
	if (sending.size() > transport_.options().message_max) return refuse(Trouble::too_large);

	if (sending.offset == 0 && MessageHeader::bytes + sending.size() <= payload_max()) {
		const MessageHeader whole{.kind = MessageKind::whole, .length = static_cast<std::uint32_t>(sending.size())};
		if (pending_ == nullptr && has_room() && post_message(sending, whole, sending.size())) return Progress::done;
		if (collect(sending)) return Progress::done;
		ask();
		return Progress::waiting;
	}
	while (sending.offset < sending.size()) {
		if (pending_ != nullptr) post_pending();
		if (pending_ != nullptr || !has_room()) {
			ask();
			return Progress::waiting;
		}
		const std::size_t length = std::min<std::size_t>(sending.size() - sending.offset, payload_max() - MessageHeader::bytes);
		const MessageHeader fragment = sending.offset == 0
			? MessageHeader{.kind = MessageKind::first, .length = static_cast<std::uint32_t>(sending.size())}
			: MessageHeader{.kind = MessageKind::more, .length = static_cast<std::uint32_t>(length)};
		if (!post_message(sending, fragment, length)) return Progress::waiting;
		sending.offset += length;
	}
	return Progress::done;
}

FrameHeader RcChannel::header(FrameKind kind) {
	FrameHeader header{
		.kind = kind, .credits_seen = grants_.seen(Control::credit), .wants_seen = grants_.seen(Control::want), .limit = grants_.tell()};
	if (kind == FrameKind::data && credits_.available() == 1 && (pending_ != nullptr || !senders_.empty())) {
		header.flags |= FrameHeader::wants_more;
		asked_ = true;
	}
	return header;
}

// nullptr: the pool is used up; the transport calls flush() when that changes.
Unit* RcChannel::take_unit() {
	Unit* const unit = transport_.pool_.take();
	if (unit == nullptr) transport_.starved_.emplace_back(slot_, generation_);
	return unit;
}

// A frame with this one message, or a fragment of it. False: there is no unit for it.
bool RcChannel::post_message(const Sending& sending, MessageHeader message, std::size_t length) {
	constexpr std::size_t headers = FrameHeader::bytes + MessageHeader::bytes;
	const std::size_t bytes = headers + length;
	RcCounters& counters = transport_.counters_;
	if (bytes <= inline_max_) {
		std::array<std::byte, headers> front;
		header(FrameKind::data).write(front.data());
		message.write(front.data() + FrameHeader::bytes);
		std::array pieces{piece(front.data(), headers), ibv_sge{}, ibv_sge{}};
		std::size_t count = 1;
		for (const auto& each : sending.slices(sending.offset, length))
			if (!each.empty()) pieces[count++] = piece(each.data(), each.size());
		post_frame(std::span(pieces).first(count), nullptr, false);
	} else {
		if (units_in_flight_ >= transport_.options().send_units_max) return false;
		Unit* const unit = take_unit();
		if (unit == nullptr) return false;
		header(FrameKind::data).write(unit->data);
		message.write(unit->data + FrameHeader::bytes);
		gather(sending.slices(sending.offset, length), unit->data + headers);
		std::array pieces{piece(unit->data, bytes, unit->lkey)};
		post_frame(pieces, unit, true);
	}
	credits_.data_sent();
	counters.messages_sent += message.kind != MessageKind::more;
	return true;
}

void RcChannel::post_frame(std::span<ibv_sge> pieces, Unit* unit, bool signal) {
	const std::uint32_t number = posted_ + 1;
	signal = signal || number - signalled_ >= send_depth_ / 2;
	ibv_send_wr request{.wr_id = std::uint64_t{number} << 1 | send_mark,
		.next = nullptr,
		.sg_list = pieces.data(),
		.num_sge = static_cast<int>(pieces.size()),
		.opcode = IBV_WR_SEND,
		.send_flags = (signal ? unsigned{IBV_SEND_SIGNALED} : 0u) | (unit == nullptr ? unsigned{IBV_SEND_INLINE} : 0u)};
	ibv_send_wr* bad = nullptr;
	if (const int error = ibv_post_send(qp_.get(), &request, &bad); error != 0) {
		if (unit != nullptr) transport_.pool_.give_back(unit);
		fail(Trouble::lost, lib::failure("ibv_post_send", error));
		return;
	}
	posted_ = number;
	if (signal) signalled_ = number;
	RcCounters& counters = transport_.counters_;
	++counters.frames_sent;
	for (const ibv_sge& each : pieces) counters.bytes_sent += each.length;
	if (unit == nullptr) {
		++counters.frames_inline;
		return;
	}
	unit->number = number;
	unit->next = nullptr;
	(in_flight_ == nullptr ? in_flight_ : in_flight_last_->next) = unit;
	in_flight_last_ = unit;
	++units_in_flight_;
}

// Into the pending frame, if it has room.
bool RcChannel::collect(const Sending& sending) {
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
	++transport_.counters_.messages_sent;
	++transport_.counters_.messages_coalesced;
	ask();
	return true;
}

void RcChannel::post_pending() {
	if (!has_room() || units_in_flight_ >= transport_.options().send_units_max) return;
	Unit* const unit = std::exchange(pending_, nullptr);
	header(FrameKind::data).write(unit->data);
	std::array pieces{piece(unit->data, unit->length, unit->lkey)};
	post_frame(pieces, unit, true);
	credits_.data_sent();
}

// There may be room: what waits goes out, in order.
void RcChannel::flush() {
	if (lost_) return;
	if (pending_ != nullptr) post_pending();
	if (!senders_.empty() && !ended_) advance_senders();
	if (pending_ != nullptr || !senders_.empty()) ask();
	if (grants_.due()) tell_credits();
	finish_close();
}

// We are blocked by credits: the peer is told once, by the flag of the last frame or by one of its own.
void RcChannel::ask() {
	if (asked_ || credits_.available() > 0 || !credits_.may_send(Control::want) || posted_ - completed_ >= send_depth_) return;
	asked_ = true;
	send_control(Control::want);
	++transport_.counters_.want_frames;
}

void RcChannel::tell_credits() {
	if (lost_ || !credits_.may_send(Control::credit) || posted_ - completed_ >= send_depth_) return;
	send_control(Control::credit);
	++transport_.counters_.credit_frames;
}

// The peer's adapter acknowledges it, or the connection is lost; the program there need not answer. Not before the peer was heard: its
// queue pair may not be ready to receive yet, when it is busy with thousands of others.
void RcChannel::beat() {
	if (heard_ && !lost_ && posted_ == posted_at_beat_ && credits_.may_send(Control::credit) && posted_ - completed_ < send_depth_) {
		send_control(Control::credit);
		++transport_.counters_.heartbeats;
	}
	posted_at_beat_ = posted_;
}

void RcChannel::send_control(Control kind) {
	std::array<std::byte, FrameHeader::bytes> frame;
	header(kind == Control::want ? FrameKind::want : FrameKind::credit).write(frame.data());
	credits_.control_sent(kind);
	if (inline_max_ >= frame.size()) {
		std::array pieces{piece(frame.data(), frame.size())};
		post_frame(pieces, nullptr, false);
		return;
	}
	Unit* const unit = transport_.pool_.take();
	if (unit == nullptr) return fail(Trouble::no_memory, "no unit for a frame of flow control");
	std::memcpy(unit->data, frame.data(), frame.size());
	std::array pieces{piece(unit->data, frame.size(), unit->lkey)};
	post_frame(pieces, unit, true);
}

void RcChannel::handle_sent(std::uint32_t number) {
	completed_ = number;
	while (in_flight_ != nullptr && static_cast<std::int32_t>(number - in_flight_->number) >= 0) {
		Unit* const unit = in_flight_;
		in_flight_ = unit->next;
		transport_.pool_.give_back(unit);
		--units_in_flight_;
	}
	flush();
	if (closed()) wake_closers();
}

void RcChannel::handle_failure(ibv_wc_status status) {
	// Flushed requests only follow the one that failed.
	fail(Trouble::lost, peer_name_ + ": the connection is lost (" + ibv_wc_status_str(status) + ")");
}

void RcChannel::fail(Trouble trouble, std::string reason) {
	if (lost_) return;
	lost_ = true;
	if (!(peer_closed_ && close_sent_)) ++transport_.counters_.channels_lost;
	loop_.cancel(*this);
	end(trouble, std::move(reason));
	wake_closers();
}

// Receiving.

void RcChannel::handle_frame(Unit* unit) {
	const auto refuse = [&](const char* what) {
		transport_.repost_unpromised(unit);
		fail(Trouble::protocol, peer_name_ + " breaks the protocol: " + what);
	};
	heard_ = true;
	const auto header = FrameHeader::read({unit->data, unit->length});
	if (!header) return refuse("a frame without a header");
	const bool control = header->kind == FrameKind::credit || header->kind == FrameKind::want;
	if (control) {
		transport_.post_again(unit);
		grants_.control_reposted(header->kind == FrameKind::want ? Control::want : Control::credit);
	} else if (!grants_.data_arrived(transport_.bank_)) {
		return refuse("a frame without a credit");
	}

	const std::uint32_t before = credits_.available();
	if (!credits_.learn(header->limit, header->credits_seen, header->wants_seen)) {
		if (!control) transport_.release(unit);
		return fail(Trouble::protocol, peer_name_ + " breaks the protocol: impossible credits");
	}
	if (credits_.available() > before) asked_ = false;
	if (header->kind == FrameKind::want || header->flags & FrameHeader::wants_more) grants_.wanted(transport_.bank_);

	if (header->kind == FrameKind::data) {
		take_messages(unit);
	} else if (header->kind == FrameKind::close) {
		peer_closed_ = true;
		end(Trouble::closed, {});
		transport_.release(unit);
	}
	flush();
	if (closed()) wake_closers();
}

// Checks the frame once, so that reading it later cannot fail.
void RcChannel::take_messages(Unit* unit) {
	std::span<const std::byte> rest(unit->data + FrameHeader::bytes, unit->length - FrameHeader::bytes);
	bool good = !rest.empty();
	while (good && !rest.empty()) {
		const auto message = MessageHeader::read(rest);
		good = message.has_value();
		if (!good) break;
		rest = rest.subspan(MessageHeader::bytes);
		const std::size_t here = message->kind == MessageKind::first ? rest.size() : message->length;
		good = here <= rest.size() &&
			(message->kind != MessageKind::first || (message->length > here && message->length <= transport_.options().message_max));
		if (good) rest = rest.subspan(here);
	}
	if (!good) {
		transport_.release(unit);
		return fail(Trouble::protocol, peer_name_ + " breaks the protocol: a message that its frame cannot hold");
	}
	unit->number = FrameHeader::bytes;
	unit->next = nullptr;
	(inbox_ == nullptr ? inbox_ : inbox_last_->next) = unit;
	inbox_last_ = unit;
	digest();
	if (has_message()) wake_receiver();
}

// Moves fragments from the inbox to the assembly, until a message can be given out: afterwards the inbox is empty or begins with a whole
// one.
void RcChannel::digest() {
	while (inbox_ != nullptr && assembled_ != assembly_size_) {
		const std::span<const std::byte> rest(inbox_->data + inbox_->number, inbox_->length - inbox_->number);
		const MessageHeader message = *MessageHeader::read(rest);
		const bool assembling = assembly_size_ != no_assembly;
		if (message.kind == MessageKind::whole && !assembling) return;
		if (assembling != (message.kind == MessageKind::more))
			return fail(Trouble::protocol, peer_name_ + " breaks the protocol: a fragment out of place");
		if (message.kind == MessageKind::first) {
			assembly_ = make_heap_block(message.length);
			if (!assembly_) return fail(Trouble::no_memory, "no memory for a message of " + std::to_string(message.length) + " bytes");
			assembly_size_ = message.length;
			assembled_ = 0;
		}
		const std::size_t here = message.kind == MessageKind::first ? rest.size() - MessageHeader::bytes : message.length;
		if (assembled_ + here > assembly_size_)
			return fail(Trouble::protocol, peer_name_ + " breaks the protocol: a message longer than announced");
		std::memcpy(assembly_.get() + assembled_, rest.data() + MessageHeader::bytes, here);
		assembled_ += here;
		inbox_->number += static_cast<std::uint32_t>(MessageHeader::bytes + here);
		if (inbox_->number == inbox_->length) drop_first_unit();
	}
}

Channel::Received RcChannel::next() {
	if (!has_message()) return std::unexpected(trouble_);
	++transport_.counters_.messages_received;
	if (assembled_ == assembly_size_) {
		Message message = heap_message(std::move(assembly_), std::exchange(assembly_size_, no_assembly));
		digest();
		return message;
	}
	Unit* const unit = inbox_;
	const MessageHeader header = *MessageHeader::read({unit->data + unit->number, unit->length - unit->number});
	const std::span<const std::byte> bytes(unit->data + unit->number + MessageHeader::bytes, header.length);
	unit->number += static_cast<std::uint32_t>(MessageHeader::bytes + header.length);
	++unit->references;
	Message message(bytes, &transport_, unit);
	if (unit->number == unit->length) drop_first_unit();
	digest();
	return message;
}

void RcChannel::drop_first_unit() {
	Unit* const unit = inbox_;
	inbox_ = unit->next;
	transport_.release(unit);
}

void RcChannel::handle_posted(CreditBank& bank) {
	grants_.data_released(bank);
	if (grants_.due()) tell_credits();
}

// Closing.

void RcChannel::close() {
	if (closing_ || ended_) {
		closing_ = true;
		return finish_close();
	}
	closing_ = true;
	loop_.schedule(*this, loop_.now() + Nanoseconds{transport_.options().close_timeout_ms} * 1'000'000);
	finish_close();
}

void RcChannel::finish_close() {
	if (lost_ || close_sent_ || !(closing_ || peer_closed_) || pending_ != nullptr || !senders_.empty()) return;
	if (!has_room()) return ask();
	std::array<std::byte, FrameHeader::bytes> frame;
	header(FrameKind::close).write(frame.data());
	Unit* const unit = take_unit();
	if (unit == nullptr) return;
	std::memcpy(unit->data, frame.data(), frame.size());
	std::array pieces{piece(unit->data, frame.size(), unit->lkey)};
	close_sent_ = true;
	close_number_ = posted_ + 1;
	credits_.data_sent();
	post_frame(pieces, unit, true);
}

void RcChannel::expire() { fail(Trouble::closed, peer_name_ + " does not close in time"); }

}  // namespace verbena::channel

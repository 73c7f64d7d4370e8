#include "lib/channel/rc_channel.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/verbs/gid.h"

namespace verbena::channel {
namespace {

// A peer that stands still within a message for so long loses its connection when others wait for memory.
constexpr Nanoseconds patience_in_a_message = 5'000'000'000;

ibv_sge piece(const void* at, std::size_t bytes, std::uint32_t lkey = 0) {
	return {.addr = reinterpret_cast<std::uint64_t>(at), .length = static_cast<std::uint32_t>(bytes), .lkey = lkey};
}

}  // namespace

RcChannel::RcChannel(RcTransport& transport, RcShared& shared, ChannelId id, std::unique_ptr<ReceiveQueue> own_receives,
	lib::MadeQueuePair made, const RcEnd& peer, std::string peer_name)
	: Channel(shared.loop, shared.options.message_max),
	  RcOwner(shared, id),
	  transport_(transport),
	  own_receives_(std::move(own_receives)),
	  receives_(own_receives_ ? *own_receives_ : *transport.shared_receives_),
	  sends_(*this, std::move(made.qp)),
	  direct_(*this, sends_, peer.reads == 0 ? 0 : shared.options.direct_depth),
	  reads_(std::min(peer.reads, shared.options.reads)),
	  eager_max_(std::min(peer.eager_max, shared.options.eager_max)),
	  credits_(peer.credits, peer.receive_depth),
	  frame_max_(std::min(peer.unit_bytes, shared.options.unit_bytes)),
	  inline_max_(std::min({made.inline_max, shared.options.inline_max, frame_max_})),
	  send_depth_(shared.options.send_depth),
	  grants_(shared.options.window),
	  peer_name_(std::move(peer_name)) {}

RcChannel::~RcChannel() {
	loop_.cancel(*this);
	transport_.remove(*this);
	direct_.withdraw_windows();
	sends_.destroy();
	if (pending_ != nullptr) shared().units.give_back(pending_);
	while (!inbox_.empty()) transport_.release(inbox_.take());
	receives_.bank().posted(grants_.promised() + offers_.count());
}

Path RcChannel::path() const {
	const lib::OpenDevice& device = transport_.device();
	return {.transport = "rc",
		.device = device.choice.device,
		.gid = lib::format_gid(device.choice.gid),
		.mtu = device.mtu_bytes(),
		.peer = peer_name_};
}

void RcChannel::prefetch() const {
	// A provider has its own part of a queue pair before or behind the public one.
	verbena::prefetch(reinterpret_cast<const std::byte*>(queue_pair()) - cache_line, 3 * cache_line);
	prefetch_receiver();
}

void RcChannel::begin(Operation& operation) {
	if (!ended_) return direct_.begin(operation);
	operation.result = Operation::Progress::failed;
	operation.trouble = trouble_;
}

// Sending.

Channel::Sending::Progress RcChannel::advance(Sending& sending) {
	if (in_message_ && sending.offset == 0) {
		fail(Trouble::lost, "a send was given up in the middle of its message");
		sending.trouble = trouble_;
		return Sending::Progress::failed;
	}
	const Sending::Progress progress = post(sending);
	in_message_ = progress == Sending::Progress::waiting && sending.offset > 0;
	return progress;
}

Channel::Sending::Progress RcChannel::post(Sending& sending) {
	using Progress = Sending::Progress;
	if (direct() && (sending.size() > eager_max_ || offers_.lends_body(sending))) return offers_.advance(sending);

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

// What came before it is out, and there is room for one more frame. Otherwise the peer is asked.
bool RcChannel::may_post_data() {
	if (pending_ != nullptr) post_pending();
	if (pending_ == nullptr && has_room()) return true;
	ask();
	return false;
}

// The next frame's worth of the `length` bytes that are next.
bool RcChannel::post_fragment(Sending& sending, std::size_t length) {
	length = std::min<std::size_t>(length, payload_max() - MessageHeader::bytes);
	const MessageHeader fragment = sending.offset == 0
		? MessageHeader{.kind = MessageKind::first, .length = static_cast<std::uint32_t>(sending.size())}
		: MessageHeader{.kind = MessageKind::more, .length = static_cast<std::uint32_t>(length)};
	if (!post_message(sending, fragment, length)) return false;
	sending.offset += length;
	return true;
}

FrameHeader RcChannel::header(FrameKind kind) {
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

// nullptr: the pool is used up; the transport calls handle_units() when that may have changed.
Unit* RcChannel::take_unit() {
	Unit* const unit = shared().units.take();
	if (unit == nullptr) wait_for_units();
	return unit;
}

// A frame with this one message, or a fragment of it. False: there is no unit for it.
bool RcChannel::post_message(const Sending& sending, MessageHeader message, std::size_t length) {
	std::array<std::byte, MessageHeader::bytes> front;
	message.write(front.data());
	if (!post_data(front, sending.slices(sending.offset, length))) return false;
	shared().counters.messages_sent += message.kind != MessageKind::more;
	return true;
}

bool RcChannel::post_data(std::span<const std::byte> front, const std::array<std::span<const std::byte>, 2>& slices) {
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
		if (sends_.units() >= shared().options.send_units_max) return false;
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

void RcChannel::post_frame(std::span<ibv_sge> pieces, Unit* unit, bool signal) {
	ibv_send_wr request{.sg_list = pieces.data(),
		.num_sge = static_cast<int>(pieces.size()),
		.opcode = IBV_WR_SEND,
		.send_flags = unit == nullptr ? unsigned{IBV_SEND_INLINE} : 0u};
	sends_.post(request, signal);
	RcCounters& counters = shared().counters;
	++counters.frames_sent;
	for (const ibv_sge& each : pieces) counters.bytes_sent += each.length;
	if (unit == nullptr) ++counters.frames_inline;
	else sends_.keep(unit);
}

// Into the pending frame, if it has room.
bool RcChannel::collect(const Sending& sending) {
	if (!shared().options.coalesce) return false;
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
	++shared().counters.messages_sent;
	++shared().counters.messages_coalesced;
	ask();
	return true;
}

void RcChannel::post_pending() {
	if (!has_room() || sends_.units() >= shared().options.send_units_max) return;
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
	if (taken_due_ > 0) tell_taken();
	if (grants_.due()) tell_credits();
	finish_close();
}

// We are blocked by credits: the peer is told once, by the flag of the last frame or by one of its own.
void RcChannel::ask() {
	if (asked_ || credits_.available() > 0 || !credits_.may_send(Control::want) || frames_in_flight() >= send_depth_)
		return;
	asked_ = true;
	send_control(Control::want);
	++shared().counters.want_frames;
}

void RcChannel::tell_credits() {
	if (lost_ || !credits_.may_send(Control::credit) || frames_in_flight() >= send_depth_) return;
	send_control(Control::credit);
	++shared().counters.credit_frames;
}

// A WRITE of no bytes: the peer's adapter acknowledges it, or the connection is lost; it takes no buffer there, and the
// program need not answer. Not before the peer was heard: its queue pair may not be ready to receive yet, when it is
// busy with thousands of others.
void RcChannel::beat() {
	if (heard_ && !lost_ && sends_.posted() == posted_at_beat_ && frames_in_flight() < send_depth_) {
		ibv_send_wr nothing{.opcode = IBV_WR_RDMA_WRITE};
		sends_.post(nothing, false);
		++shared().counters.heartbeats;
	}
	posted_at_beat_ = sends_.posted();
	if (standstill_.look(assembly_.left(), loop_.now()) > patience_in_a_message && !shared().waiting_for_memory.empty())
		fail(Trouble::lost,
			peer_name_ + " stands still in the middle of a message, and others wait for the memory that it holds");
}

// Not limited by credits: the peer has kept a receive buffer for each of its offers.
void RcChannel::tell_taken() {
	if (frames_in_flight() >= send_depth_) return;
	FrameHeader frame = header(FrameKind::taken);
	frame.flags = static_cast<std::uint8_t>(std::exchange(taken_due_, 0));
	post_short(frame);
}

void RcChannel::send_control(Control kind) {
	const FrameHeader frame = header(kind == Control::want ? FrameKind::want : FrameKind::credit);
	credits_.control_sent(kind);
	post_short(frame);
}

void RcChannel::post_short(const FrameHeader& header) {
	std::array<std::byte, FrameHeader::bytes> frame;
	header.write(frame.data());
	if (inline_max_ >= frame.size()) {
		std::array pieces{piece(frame.data(), frame.size())};
		post_frame(pieces, nullptr, false);
		return;
	}
	Unit* const unit = shared().units.take();
	if (unit == nullptr) return fail(Trouble::no_memory, "no unit for a frame of flow control");
	std::memcpy(unit->data, frame.data(), frame.size());
	std::array pieces{piece(unit->data, frame.size(), unit->lkey)};
	post_frame(pieces, unit, true);
}

void RcChannel::handle_sent(std::uint32_t number) {
	sends_.handle_done(number);
	if (direct_.in_flight() > 0) {
		if (const std::uint32_t parts = direct_.handle_done(number); parts > 0) handle_parts_read(parts);
		direct_.post_ends();
	}
	if (!operations_.empty()) advance_operations();
	if (digest_later_) digest_and_wake();
	flush();
	settle();
}

void RcChannel::handle_failure(ibv_wc_status status) {
	// Flushed requests only follow the one that failed.
	if (!lost_) status_ = ibv_wc_status_str(status);
	fail(Trouble::lost, peer_name_ + ": the connection is lost (" + ibv_wc_status_str(status) + ")");
}

void RcChannel::fail(Trouble trouble, std::string reason) {
	if (lost_) return;
	lost_ = true;
	if (!(peer_closed_ && close_sent_)) ++shared().counters.channels_lost;
	loop_.cancel(*this);
	end(trouble, std::move(reason));
	sends_.drop_deferred();
	direct_.fail(trouble_);
	wake_closers();
}

void RcChannel::break_off(const char* what) { fail(Trouble::protocol, peer_name_ + " breaks the protocol: " + what); }

// Receiving.

void RcChannel::handle_frame(Unit* unit) {
	const auto refuse = [&](const char* what) {
		transport_.repost_unpromised(unit);
		break_off(what);
	};
	heard_ = true;
	const auto header = FrameHeader::read({unit->data, unit->length});
	if (!header) return refuse("a frame without a header");
	const bool control = header->kind != FrameKind::data && header->kind != FrameKind::close;
	if (header->kind == FrameKind::taken) {
		if (header->flags == 0 || header->flags > offers_.count()) return refuse("it took what was not offered");
		receives_.post_one(unit);
		offers_.handle_taken(header->flags);
	} else if (control) {
		receives_.post_one(unit);
		if (!grants_.control_reposted(header->kind == FrameKind::want ? Control::want : Control::credit))
			return break_off("a second frame of flow control before the first was seen");
	} else if (!grants_.data_arrived(receives_.bank())) {
		return refuse("a frame without a credit");
	} else if (own_receives_ && !post_another(unit)) {
		transport_.release(unit);
		return fail(Trouble::no_memory, "no unit to receive the next frame");
	}

	const std::uint32_t before = credits_.available();
	if (!credits_.learn(header->limit, header->credits_seen, header->wants_seen)) {
		if (!control) transport_.release(unit);
		return break_off("impossible credits");
	}
	if (credits_.available() > before) asked_ = false;
	if (header->kind == FrameKind::data) {
		take_messages(unit);
	} else if (header->kind == FrameKind::close) {
		if (!std::exchange(peer_closed_, true) && !closing_) limit_closing();
		end(Trouble::closed, {});
		transport_.release(unit);
	}
	if (header->kind == FrameKind::want || (header->kind == FrameKind::data && header->flags & FrameHeader::wants_more))
		lend_more();
	flush();
	settle();
}

// The peer waits for credits. With watermark=close and a shared queue that has none left to lend, and cannot grow, its
// connection ends.
void RcChannel::lend_more() {
	const RcOptions& options = shared().options;
	if (options.watermark == Watermark::close && !own_receives_ && receives_.bank().free() == 0 &&
		!receives_.grow(options.units_low))
		return fail(Trouble::no_memory, "no receive buffer is left for what " + peer_name_ + " wants to send");
	grants_.wanted(receives_.bank());
}

// RecvMode::per_connection: the receive queue stays full, whatever the program keeps. Without a unit for that, this one
// will be posted again once it is read; or the channel ends.
bool RcChannel::post_another(Unit* unit) {
	Unit* const another = shared().units.take();
	if (another == nullptr) return shared().options.watermark == Watermark::wait;
	unit->unpromised = true;
	receives_.post_one(another);
	grants_.data_released(receives_.bank());
	return true;
}

// Checks the frame once, so that reading it later cannot fail.
void RcChannel::take_messages(Unit* unit) {
	const std::span<const std::byte> messages(unit->data + FrameHeader::bytes, unit->length - FrameHeader::bytes);
	if (!are_messages(messages, message_max_, fetches())) {
		transport_.release(unit);
		return break_off("a message that its frame cannot hold");
	}
	inbox_.add(unit);
	digest_and_wake();
}

void RcChannel::digest_and_wake() {
	digest();
	if (has_message()) wake_receiver();
}

// Moves pieces from the inbox to the assembly, until a message can be given out or something has to be waited for:
// afterwards the inbox is empty, or begins with a whole message, or with a piece whose time has not come.
void RcChannel::digest() {
	digest_later_ = false;
	while (!inbox_.empty() && !lost_ && !assembly_.placed()) {
		const MessageHeader message = inbox_.header();
		if (message.kind == MessageKind::whole && !assembly_.begun()) return;
		std::span<const std::byte> bytes = inbox_.bytes();
		Offer offer;
		if (message.kind == MessageKind::offer) {
			if (direct_.full()) {
				digest_later_ = true;
				return;
			}
			offer = Offer::read(bytes);
			bytes = bytes.subspan(Offer::bytes);
		}
		const bool begins =
			message.kind == MessageKind::first || (message.kind == MessageKind::offer && !assembly_.begun());
		if (message.kind == MessageKind::whole || begins == assembly_.begun())
			return break_off("a fragment out of place");
		if (begins && !begin_assembly(message.kind == MessageKind::first ? message.length : offer.total)) return;
		if (message.kind == MessageKind::offer && offer.total != assembly_.size())
			return break_off("an offer of another message");
		if (bytes.size() + offer.length > assembly_.missing()) return break_off("a message longer than announced");
		assembly_.copy(bytes);
		if (offer.length > 0)
			direct_.read_part(
				assembly_.read(offer.length), {.address = offer.address, .length = offer.length, .rkey = offer.rkey});
		advance_inbox();
	}
}

// False: there is no memory, now or at all.
bool RcChannel::begin_assembly(std::size_t size) {
	const RcOptions& options = shared().options;
	if (assembly_.begin(size, fetches() ? &shared().memory : nullptr)) return true;
	if (fetches() && options.watermark == Watermark::wait && size <= options.memory.max) wait_for_memory();
	else fail(Trouble::no_memory, "no memory for a message of " + std::to_string(size) + " bytes");
	return false;
}

void RcChannel::handle_parts_read(std::uint32_t count) {
	assembly_.handle_reads(count);
	taken_due_ += count;
	digest_and_wake();
}

void RcChannel::handle_units() {
	stop_waiting_for_units();
	flush();
}

void RcChannel::handle_memory() {
	stop_waiting_for_memory();
	digest_and_wake();
	flush();
}

Channel::Received RcChannel::next() {
	if (!has_message()) return std::unexpected(trouble_);
	++shared().counters.messages_received;
	if (assembly_.complete()) {
		Message message = assembly_.take();
		digest();
		return message;
	}
	Unit* const unit = inbox_.unit();
	++unit->references;
	Message message(inbox_.bytes(), &transport_, unit);
	advance_inbox();
	digest();
	return message;
}

void RcChannel::handle_posted() {
	grants_.data_released(receives_.bank());
	if (grants_.due()) tell_credits();
}

// Closing.

void RcChannel::close() {
	if (!std::exchange(closing_, true) && !ended_) limit_closing();
	finish_close();
}

// The peer may never answer, or stop taking what is to go out before.
void RcChannel::limit_closing() {
	loop_.schedule(*this, loop_.now() + Nanoseconds{shared().options.close_timeout_ms} * 1'000'000);
}

void RcChannel::finish_close() {
	if (lost_ || close_sent_ || !(closing_ || peer_closed_) || pending_ != nullptr || !senders_.empty()) return;
	if (offers_.count() > 0 || taken_due_ > 0) return;  // what was offered is still to be fetched
	if (!has_room()) return ask();
	std::array<std::byte, FrameHeader::bytes> frame;
	header(FrameKind::close).write(frame.data());
	Unit* const unit = take_unit();
	if (unit == nullptr) return;
	std::memcpy(unit->data, frame.data(), frame.size());
	std::array pieces{piece(unit->data, frame.size(), unit->lkey)};
	close_sent_ = true;
	credits_.data_sent();
	post_frame(pieces, unit, true);
	close_number_ = sends_.posted();
}

// Both ends know that it is over: nobody waits for the other any more.
void RcChannel::settle() {
	if (!closed()) return;
	loop_.cancel(*this);
	wake_closers();
}

void RcChannel::expire() { fail(Trouble::closed, peer_name_ + " does not close in time"); }

}  // namespace verbena::channel

// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/rc_channel.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/verbs/gid.h"

namespace verbena::channel {
namespace {

// A peer that makes no progress within a message for this long loses its connection, if other
// channels wait for memory.
constexpr Nanoseconds stall_timeout = 5'000'000'000;

}  // namespace

RcChannel::RcChannel(RcTransport& transport, RcShared& shared, ChannelId id, ReceiveQueue& receives, RcOffer offer,
	const RcEnd& peer, std::string peer_name)
	: Channel(shared.loop, shared.options.message_max),
	  RcOwner(shared, id),
	  transport_(transport),
	  own_receives_(std::move(offer.own_receives)),
	  receives_(receives),
	  sends_(*this, std::move(offer.made.qp)),
	  direct_(*this, sends_, peer.reads == 0 ? 0 : shared.options.direct_depth),
	  reads_(std::min(peer.reads, shared.options.reads)),
	  eager_max_(std::min(peer.eager_max, shared.options.eager_max)),
	  grants_(shared.options.window),
	  frames_(*this, sends_, direct_, grants_, senders_, peer, offer.made.inline_max),
	  offers_(*this, frames_, direct_, receives_),
	  mtu_(std::min(transport.device().mtu_bytes(), peer.mtu_bytes)),
	  peer_qpn_(peer.qpn),
	  peer_name_(std::move(peer_name)) {
	// The destructor returns what is left of the share.
	[[maybe_unused]] const auto left = offer.share.release();
}

RcChannel::~RcChannel() {
	loop_.cancel(*this);
	lib::to_error(queue_pair());  // from here on nothing arrives for it
	direct_.withdraw_windows();
	while (!inbox_.empty()) transport_.release(inbox_.take());
	EndedQueuePair ended = sends_.end();
	ended.buffers = direct_.take_buffers();
	transport_.remove(*this, std::move(ended), grants_.granted_total() + offers_.count());
}

Path RcChannel::path() const {
	const lib::OpenDevice& device = transport_.device();
	return {.transport = "rc",
		.device = device.choice.device,
		.gid = lib::format_gid(device.choice.gid),
		.mtu = mtu_,
		.peer = peer_name_};
}

RcChannel::Wait RcChannel::wait() const {
	if (ended_) return Wait::nothing;
	const bool sends = frames_.has_pending() || !senders_.empty();
	if (sends && frames_.credits() == 0) return Wait::credits;
	if (waits_for_units()) return Wait::units;
	if (waits_for_memory()) return Wait::memory;
	if (offers_.count() > 0) return Wait::fetch;
	return sends ? Wait::room : Wait::nothing;
}

ChannelStatus RcChannel::status() const {
	static constexpr std::array words{"nothing", "credits", "units", "memory", "fetch", "room"};
	const Wait wait = this->wait();
	ChannelStatus status{.qpn = queue_pair()->qp_num,
		.peer_qpn = peer_qpn_,
		.waits = words[static_cast<std::size_t>(wait)],
		.credits = frames_.credits(),
		.granted = grants_.remaining(),
		.sends = frames_.has_pending(),
		.bytes = frames_.pending_bytes(),
		.offers = offers_.count(),
		.offered_bytes = offers_.memory_bytes(),
		.held = grants_.held(),
		.peer = peer_name_};
	const Nanoseconds since = wait == Wait::credits ? frames_.waits_since()
		: wait == Wait::fetch                       ? offers_.waits_since()
													: loop_.now();
	status.waits_ms = static_cast<std::uint64_t>(std::max<Nanoseconds>(loop_.now() - since, 0)) / 1'000'000;
	senders_.for_each([&](const async::Waiter& waiter) {
		const auto& sending = static_cast<const Sending&>(waiter);
		++status.sends;
		status.bytes += sending.size() - sending.offset;
	});
	return status;
}

void RcChannel::prefetch() const {
	// A provider keeps its private part of a queue pair in front of or behind the public struct.
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
		fail(Trouble::lost, "a send was abandoned in the middle of its message");
		sending.trouble = trouble_;
		return Sending::Progress::failed;
	}
	const bool offered = direct() && (sending.size() > eager_max_ || offers_.offers_in_place(sending));
	const Sending::Progress progress = offered ? offers_.advance(sending) : frames_.advance(sending);
	in_message_ = progress == Sending::Progress::waiting && sending.offset > 0;
	return progress;
}

// There may be room: what waits is sent, in order.
void RcChannel::flush() {
	if (lost_) return;
	if (frames_.has_pending()) frames_.post_pending();
	if (!senders_.empty() && !ended_) advance_senders();
	if (frames_.has_pending() || !senders_.empty()) frames_.ask();
	if (taken_due_ > 0 && frames_.post_taken(taken_due_)) taken_due_ = 0;
	if (grants_.due()) frames_.post_credit();
	finish_close();
}

void RcChannel::beat() {
	if (!lost_) frames_.beat();
	if (stall_watch_.look(assembly_.left(), loop_.now()) > stall_timeout && !shared().waiting_for_memory.empty())
		fail(Trouble::lost,
			peer_name_ + " makes no progress within a message, and other channels wait for the memory that it holds");
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
	// Only the first failure says why: the requests behind it are flushed.
	if (!lost_) status_ = ibv_wc_status_str(status);
	fail(Trouble::lost, peer_name_ + ": the connection is lost (" + ibv_wc_status_str(status) + ")");
}

void RcChannel::fail(Trouble trouble, std::string reason) {
	if (lost_) return;
	lost_ = true;
	if (!(peer_closed_ && frames_.close_posted())) ++shared().counters.channels_lost;
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
		transport_.repost_ungranted(unit);
		break_off(what);
	};
	const auto header = FrameHeader::read({unit->data, unit->length});
	if (!header) return refuse("a frame without a header");
	const bool control = header->kind != FrameKind::data && header->kind != FrameKind::close;
	if (header->kind == FrameKind::taken) {
		if (header->flags == 0 || header->flags > offers_.count())
			return refuse("it reports more offers as fetched than there are");
		receives_.post_one(unit);
		handle_taken(header->flags);
	} else if (control) {
		receives_.post_one(unit);
		if (!grants_.control_reposted(header->kind == FrameKind::want ? Control::want : Control::credit))
			return break_off("a second control frame before the first was seen");
	} else if (!grants_.data_arrived(receives_.bank())) {
		return refuse("a frame without a credit");
	} else if (own_receives_ && !post_another(unit)) {
		transport_.release(unit);
		return fail(Trouble::no_memory, "no unit is left to receive the next frame");
	}

	if (!frames_.learn(*header)) {
		if (!control) transport_.release(unit);
		return break_off("impossible credits");
	}
	if (header->kind == FrameKind::data) {
		take_messages(unit);
	} else if (header->kind == FrameKind::close) {
		if (!std::exchange(peer_closed_, true) && !closing_) limit_closing();
		end(Trouble::closed, {});
		transport_.release(unit);
	}
	if (header->kind == FrameKind::want || (header->kind == FrameKind::data && header->flags & FrameHeader::wants_more))
		grant_more();
	flush();
	settle();
}

// The peer has fetched the `count` oldest offers.
void RcChannel::handle_taken(std::uint32_t count) {
	offers_.handle_taken(count);
	while (!offered_.empty()) {
		auto& sending = static_cast<Sending&>(offered_.front());
		if (!offers_.is_taken(sending.offer)) break;
		sending.result = Sending::Progress::done;
		loop_.resume_soon(sending);
	}
}

// The peer waits for credits. With watermark=close its connection ends if the shared queue has no
// free unit to grant and cannot grow.
void RcChannel::grant_more() {
	const RcOptions& options = shared().options;
	if (options.watermark == Watermark::close && !own_receives_ && receives_.bank().free() == 0 &&
		!receives_.grow(options.units_low))
		return fail(
			Trouble::no_memory, "no receive buffer is left for the messages that " + peer_name_ + " wants to send");
	grants_.wanted(receives_.bank());
}

// RecvMode::per_connection: posts another unit for the one that has arrived, so that the receive
// queue stays full however many messages the program keeps. Without a unit for that, watermark=wait
// posts this one again once it is read. False: there is none, and watermark=close.
bool RcChannel::post_another(Unit* unit) {
	Unit* const another = shared().units.take();
	if (another == nullptr) return shared().options.watermark == Watermark::wait;
	unit->ungranted = true;
	receives_.post_one(another);
	grants_.data_released(receives_.bank());
	return true;
}

// Checks a data frame once, so that reading it later cannot fail.
void RcChannel::take_messages(Unit* unit) {
	const std::span<const std::byte> messages(unit->data + FrameHeader::bytes, unit->length - FrameHeader::bytes);
	if (!are_messages(messages, message_max_, fetches())) {
		transport_.release(unit);
		return break_off("a message that does not fit its frame");
	}
	inbox_.add(unit);
	digest_and_wake();
}

void RcChannel::digest_and_wake() {
	digest();
	if (has_message()) wake_receiver();
}

// Moves pieces from the inbox to the assembly, until a message can be given to the program or
// something is missing. Afterwards the inbox is empty, or begins with a whole message, or with a
// piece that has to wait for memory, for room for a READ, or for the message before it.
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
			return break_off("the parts of a message out of order");
		if (begins && !begin_assembly(message.kind == MessageKind::first ? message.length : offer.total)) return;
		if (message.kind == MessageKind::offer && offer.total != assembly_.size())
			return break_off("an offer for another message");
		if (bytes.size() + offer.length > assembly_.missing()) return break_off("a message longer than announced");
		assembly_.copy(bytes);
		if (offer.length > 0)
			direct_.read_part(
				assembly_.read(offer.length), {.address = offer.address, .length = offer.length, .rkey = offer.rkey});
		advance_inbox();
	}
}

// Begins a message of `size` bytes in several pieces. False: there is no memory for it; the channel
// waits for some, or has ended.
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
	if (grants_.due() && !lost_) frames_.post_credit();
}

// Closing.

void RcChannel::close() {
	if (!std::exchange(closing_, true) && !ended_) limit_closing();
	finish_close();
}

// Gives the peer `close_timeout_ms`: it may never answer, or stop receiving what is sent before.
void RcChannel::limit_closing() {
	loop_.schedule(*this, loop_.now() + Nanoseconds{shared().options.close_timeout_ms} * 1'000'000);
}

// Sends the close frame once it is due and everything before it is sent.
void RcChannel::finish_close() {
	if (lost_ || frames_.close_posted() || !(closing_ || peer_closed_)) return;
	if (frames_.has_pending() || !senders_.empty()) return;
	if (offers_.count() > 0 || taken_due_ > 0) return;  // offered bytes are still to be fetched
	frames_.post_close();
}

// Once both ends have closed, nothing is waited for any more.
void RcChannel::settle() {
	if (!closed()) return;
	loop_.cancel(*this);
	wake_closers();
}

void RcChannel::expire() { fail(Trouble::closed, peer_name_ + " does not close in time"); }

}  // namespace verbena::channel

#include "lib/channel/offers.h"

#include "lib/channel/rc_channel.h"

namespace verbena::channel {
namespace {

using Progress = Channel::Sending::Progress;

// Equal parts, up to a sixteenth larger than asked for rather than one more: a short one costs as many messages as a
// long one.
std::size_t next_part(std::size_t left, std::size_t part_bytes) {
	const std::size_t parts = left <= part_bytes ? 1 : (left - part_bytes / 16 + part_bytes - 1) / part_bytes;
	return (left + parts - 1) / parts;
}

}  // namespace

bool Offers::lends_body(const Channel::Sending& sending) const {
	return sending.place.buffer && sending.place.length >= channel_.shared().options.lend_min;
}

// What is left of a head that goes in frames.
std::size_t Offers::head_before_offer(const Channel::Sending& sending) const {
	return lends_body(sending) ? sending.head.size() - std::min(sending.offset, sending.head.size()) : 0;
}

Progress Offers::advance(Channel::Sending& sending) {
	while (sending.offset < sending.size()) {
		if (!channel_.may_post_data()) return Progress::waiting;
		const std::size_t head = head_before_offer(sending);
		const bool fits = head + MessageHeader::bytes + Offer::bytes <= channel_.payload_max();
		if (!(fits ? make(sending) : channel_.post_fragment(sending, head))) return Progress::waiting;
	}
	return lends_body(sending) ? Progress::offered : Progress::done;
}

// What is left of the head, and as much of the body as fits a part.
bool Offers::make(Channel::Sending& sending) {
	RcShared& shared = channel_.shared();
	if (count() >= shared.options.offers_max || channel_.direct_.full()) return false;
	const std::size_t head = head_before_offer(sending);
	const Place part = part_of(sending, sending.offset + head);
	if (!part.buffer || !reserve_answer()) return false;
	RemoteMemory remote;
	const std::uint32_t window = channel_.direct_.lend(part, Right::read, remote);
	const auto give_up = [&] {
		channel_.receives_.bank().posted(1);
		if (window != WindowTable::none) channel_.direct_.end(window);
		return false;
	};
	if (window == WindowTable::none) return give_up();
	std::array<std::byte, MessageHeader::bytes + Offer::bytes> front;
	MessageHeader{.kind = MessageKind::offer, .length = static_cast<std::uint32_t>(Offer::bytes + head)}.write(
		front.data());
	Offer{.address = remote.address,
		.length = remote.length,
		.rkey = remote.rkey,
		.total = static_cast<std::uint32_t>(sending.size())}
		.write(front.data() + MessageHeader::bytes);
	if (!channel_.post_data(front, sending.slices(sending.offset, head))) return give_up();
	windows_[made_++ % max] = window;
	shared.counters.offers_most = std::max(shared.counters.offers_most, count());
	shared.counters.messages_sent += sending.offset == 0;
	sending.offset += head + part.length;
	sending.offer = made_;
	return true;
}

// Empty: no memory for a copy, and the channel waits for some.
Place Offers::part_of(const Channel::Sending& sending, std::size_t from) {
	const std::size_t left = sending.size() - from;
	if (lends_body(sending)) return {sending.place.buffer, sending.place.offset + from - sending.head.size(), left};
	RcShared& shared = channel_.shared();
	Buffer copy = shared.memory.take(next_part(left, shared.options.part_bytes));
	if (copy) gather(sending.slices(from, copy.size()), copy.data());
	else channel_.wait_for_memory();
	return copy;
}

// A receive buffer for the frame that tells that an offer was taken: it needs no credit.
bool Offers::reserve_answer() {
	if (channel_.receives_.take(1, channel_.own_receives_ ? 1 : channel_.shared().options.units_low)) return true;
	channel_.wait_for_units();
	return false;
}

void Offers::handle_taken(std::uint32_t count) {
	channel_.receives_.bank().posted(count);
	while (count-- > 0) channel_.direct_.end(windows_[taken_++ % max]);
	while (!channel_.offered_.empty()) {
		auto& sending = static_cast<Channel::Sending&>(channel_.offered_.front());
		if (static_cast<std::int32_t>(taken_ - sending.offer) < 0) break;
		sending.result = Progress::done;
		channel_.loop_.resume_soon(sending);
	}
}

}  // namespace verbena::channel

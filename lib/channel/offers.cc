// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/offers.h"

namespace verbena::channel {
namespace {

using Progress = Channel::Sending::Progress;

// The bytes of the next part: parts are equal, and up to a sixteenth larger than `part_bytes` if
// that saves a part, because a short part costs as many frames as a long one.
std::size_t next_part(std::size_t left, std::size_t part_bytes) {
	const std::size_t parts = left <= part_bytes ? 1 : (left - part_bytes / 16 + part_bytes - 1) / part_bytes;
	return (left + parts - 1) / parts;
}

}  // namespace

bool Offers::offers_in_place(const Channel::Sending& sending) const {
	return sending.place.buffer && sending.place.length >= shared_.options.share_min;
}

// Bytes of the head that are still to be sent in frames.
std::size_t Offers::head_before_offer(const Channel::Sending& sending) const {
	return offers_in_place(sending) ? sending.head.size() - std::min(sending.offset, sending.head.size()) : 0;
}

Progress Offers::advance(Channel::Sending& sending) {
	while (sending.offset < sending.size()) {
		if (!frames_.may_post_data()) return Progress::waiting;
		const std::size_t head = head_before_offer(sending);
		const bool fits = head + MessageHeader::bytes + Offer::bytes <= frames_.payload_max();
		if (!(fits ? make(sending) : frames_.post_fragment(sending, head))) return Progress::waiting;
	}
	return offers_in_place(sending) ? Progress::offered : Progress::done;
}

// Makes one offer: the rest of the head travels in its frame, and the next part of the body is to
// be fetched. False: there is no room, no window or no memory; the sending stays as it was.
bool Offers::make(Channel::Sending& sending) {
	if (count() >= shared_.options.offers_max || direct_.full()) return false;
	const std::size_t head = head_before_offer(sending);
	const Place part = part_of(sending, sending.offset + head);
	if (!part.buffer || !reserve_answer()) return false;
	RemoteMemory remote;
	const std::uint32_t window = direct_.share(part, Right::read, remote);
	const auto give_up = [&] {
		receives_.bank().posted(1);
		if (window != WindowTable::none) direct_.end(window);
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
	if (!frames_.post_data(front, sending.slices(sending.offset, head))) return give_up();
	if (count() == 0) waits_since_ = shared_.loop.now();
	windows_[made_++ % max] = window;
	shared_.counters.offers_most = std::max(shared_.counters.offers_most, count());
	shared_.counters.messages_sent += sending.offset == 0;
	sending.offset += head + part.length;
	sending.offer = made_;
	return true;
}

// The memory of the next part, beginning at byte `from` of the message. Empty: there is no memory
// for a copy, and the channel waits for some.
Place Offers::part_of(const Channel::Sending& sending, std::size_t from) {
	const std::size_t left = sending.size() - from;
	if (offers_in_place(sending))
		return {sending.place.buffer, sending.place.offset + from - sending.head.size(), left};
	Buffer copy = shared_.memory.take(next_part(left, shared_.options.part_bytes));
	if (copy) gather(sending.slices(from, copy.size()), copy.data());
	else owner_.wait_for_memory();
	return copy;
}

// Reserves a receive buffer for the frame by which the peer reports that it has fetched the offer:
// that frame needs no credit (docs/decisions/0015).
bool Offers::reserve_answer() {
	if (receives_.take(1, shared_.options.recv_mode == RecvMode::per_connection ? 1 : shared_.options.units_low))
		return true;
	owner_.wait_for_units();
	return false;
}

std::uint64_t Offers::memory_bytes() const {
	std::uint64_t bytes = 0;
	for (std::uint32_t i = taken_; i != made_; ++i) bytes += shared_.windows[windows_[i % max]].buffer.size();
	return bytes;
}

void Offers::handle_taken(std::uint32_t count) {
	receives_.bank().posted(count);
	waits_since_ = shared_.loop.now();
	while (count-- > 0) direct_.end(windows_[taken_++ % max]);
}

}  // namespace verbena::channel

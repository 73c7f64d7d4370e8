// The frames with messages that have arrived on one channel, oldest first, read from the front.
#pragma once

#include "lib/channel/frame.h"
#include "lib/channel/units.h"

namespace verbena::channel {

// What is behind a frame's header: one message or more, each with its header, none longer than the frame that holds it
// (a first fragment: than `message_max`), and offers only where a peer may make them.
bool are_messages(std::span<const std::byte> bytes, std::size_t message_max, bool offers_allowed);

class Inbox {
public:
	bool empty() const { return first_ == nullptr; }
	// A whole frame, whose messages are good.
	void add(Unit* unit) {
		unit->number = FrameHeader::bytes;
		unit->next = nullptr;
		(first_ == nullptr ? first_ : last_->next) = unit;
		last_ = unit;
	}

	// The next message: its header, its bytes in this frame, and the unit that they lie in.
	MessageHeader header() const { return *MessageHeader::read(rest()); }
	std::span<const std::byte> bytes() const {
		const MessageHeader message = header();
		const std::span<const std::byte> behind = rest().subspan(MessageHeader::bytes);
		return message.kind == MessageKind::first ? behind : behind.first(message.length);
	}
	Unit* unit() const { return first_; }
	// On to the one after it. Returns the unit if that was its last one, or nullptr.
	[[nodiscard]] Unit* skip() {
		first_->number += static_cast<std::uint32_t>(MessageHeader::bytes + bytes().size());
		return first_->number == first_->length ? take() : nullptr;
	}
	// The oldest frame, read or not. There is one.
	[[nodiscard]] Unit* take() {
		Unit* const unit = first_;
		first_ = unit->next;
		return unit;
	}

private:
	std::span<const std::byte> rest() const { return {first_->data + first_->number, first_->length - first_->number}; }

	Unit* first_ = nullptr;  // `number` is how far it was read
	Unit* last_ = nullptr;
};

}  // namespace verbena::channel

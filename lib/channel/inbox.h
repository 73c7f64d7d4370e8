// SPDX-License-Identifier: Apache-2.0
// The data frames that have arrived on one channel and are not read yet, oldest first. Messages are
// read from the front, where they lie.
//
// Threads: the loop's thread.
// Owns: nothing. It links the units through `next` and keeps the position in `number`; a unit that
//   skip() or take() returns is the caller's to release.
// Invariants: every frame in it has passed are_messages(), so reading it cannot fail.
#pragma once

#include "lib/channel/frame.h"
#include "lib/channel/units.h"

namespace verbena::channel {

// Whether these bytes, which follow a frame's header, are valid: one message or more, each with its
// header and none longer than the frame (a first part: than `message_max`), and offers only where
// the peer may make them.
bool are_messages(std::span<const std::byte> bytes, std::size_t message_max, bool offers_allowed);

class Inbox {
public:
	bool empty() const { return first_ == nullptr; }
	// Adds a frame that has passed are_messages().
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
	// Moves on to the next message. Returns the unit if this was its last message, or null.
	[[nodiscard]] Unit* skip() {
		first_->number += static_cast<std::uint32_t>(MessageHeader::bytes + bytes().size());
		return first_->number == first_->length ? take() : nullptr;
	}
	// Removes the oldest frame, read or not. Only when not empty().
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

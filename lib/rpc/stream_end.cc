// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/stream_end.h"

namespace verbena::rpc {

std::shared_ptr<StreamEnd> StreamEnd::make(
	IoThread& home, std::uint32_t window, std::uint32_t item_max, std::shared_ptr<ItemBytes> counted) {
	const auto at_home = [](StreamEnd* end) { end->home_.run([end] { delete end; }); };
	return {new StreamEnd(home, window, item_max, std::move(counted)), at_home};
}

StreamEnd::~StreamEnd() { home_.loop().cancel(*this); }

void StreamEnd::begin(Outbox& outbox, std::uint32_t sequence) {
	if (ended_) return;
	outbox_ = &outbox;
	sequence_ = sequence;
	grant(reads_.first_grant());
}

void StreamEnd::end_at(Nanoseconds deadline) {
	if (deadline != never && !ended_) home_.loop().schedule(*this, deadline);
}

void StreamEnd::expire() { end(rpc_error(errc::timed_out)); }

StreamEnd::Taken StreamEnd::take(const Frame& frame, Arrived& arrived) {
	if (ended_) return Taken::yes;
	switch (frame.header.kind) {
		case FrameKind::item: return take_item(frame, arrived);
		case FrameKind::window:
			if (!writes_.grant(frame.header.granted)) return Taken::breach;
			if (!writers_.empty()) resume_writer_if_ready();
			return Taken::yes;
		case FrameKind::done:
			peer_done_ = true;
			home_.loop().resume_soon(readers_);
			return Taken::yes;
		default: return Taken::breach;
	}
}

StreamEnd::Taken StreamEnd::take_item(const Frame& frame, Arrived& arrived) {
	const std::size_t cost = item_cost(frame.body.size());
	// discard() sets peer_done_ as well, and the peer may go on sending then.
	if (peer_done_ && !discards_) return Taken::breach;
	if (!reads_.arrive(cost)) return Taken::breach;
	if (discards_) {
		grant(reads_.consume(cost));
		return Taken::yes;
	}
	if (!items_.push(frame.body, arrived)) return Taken::no_room;
	home_.loop().resume_soon(readers_);
	return Taken::yes;
}

void StreamEnd::end(rpc_error why) {
	if (ended_) return;
	ended_ = true;
	error_ = std::move(why);
	outbox_ = nullptr;
	Uncrowded::unlink();
	home_.loop().cancel(*this);
	home_.loop().resume_soon(readers_);
	home_.loop().resume_soon(writers_);
}

void StreamEnd::stop_writing() {
	if (writes_done_) return;
	writes_done_ = true;
	if (outbox_ != nullptr) say({.kind = FrameKind::done, .sequence = sequence_});
	home_.loop().resume_soon(writers_);
}

void StreamEnd::discard() {
	discards_ = peer_done_ = true;
	while (!items_.empty()) drop_first();
	home_.loop().resume_soon(readers_);
}

void StreamEnd::say(const FrameHeader& header) {
	FrameDraft draft = outbox_->begin(header);
	outbox_->finish(draft);
}

void StreamEnd::grant(std::uint32_t bytes) {
	if (bytes > 0 && outbox_ != nullptr) say({.kind = FrameKind::window, .sequence = sequence_, .granted = bytes});
}

void StreamEnd::drop_first() {
	const std::size_t cost = item_cost(items_.front().size());
	items_.pop();
	if (!ended_) grant(reads_.consume(cost));
}

rpc_error StreamEnd::reason_for_failed_write() const {
	if (error_) return error_;
	return {errc::operation_canceled,
		writes_done_ ? "a stream cannot be written after writes_done()" : "the function has ended"};
}

rpc_result<void> StreamEnd::send(FrameDraft& draft) {
	const std::size_t size = outbox_->body_size(draft);
	if (size > item_max_ || !outbox_->fits(draft, 0)) {
		outbox_->drop(draft);
		return std::unexpected(rpc_error(errc::message_too_large, "the item is larger than the limit"));
	}
	outbox_->finish(draft);
	writes_.spend(item_cost(size));
	outbox_->notify_next();
	return {};
}

}  // namespace verbena::rpc

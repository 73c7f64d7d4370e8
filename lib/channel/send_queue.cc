// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/send_queue.h"

namespace verbena::channel {

std::uint32_t SendQueue::post(ibv_send_wr& request, bool signal) {
	post_deferred();
	const std::uint32_t given = prepare(request, signal);
	post_list(request);
	return given;
}

std::uint32_t SendQueue::defer(const ibv_send_wr& request, const ibv_sge& piece) {
	Deferred& last = deferred_.emplace_back(request, piece);
	shared_.loop.at_turn_end(*this);
	return prepare(last.request, true);
}

std::uint32_t SendQueue::prepare(ibv_send_wr& request, bool signal) {
	const std::uint32_t number = ++posted_;
	if (signal || number - signalled_ >= depth_ / 2) {
		request.send_flags |= IBV_SEND_SIGNALED;
		signalled_ = number;
	}
	request.wr_id = std::uint64_t{number} << 1 | send_mark;
	return number;
}

void SendQueue::post_deferred() {
	if (deferred_.empty()) return;
	// Linked only now: the vector moves its elements while it grows.
	for (std::size_t i = 0; i < deferred_.size(); ++i) {
		Deferred& each = deferred_[i];
		each.request.sg_list = &each.piece;
		each.request.next = i + 1 < deferred_.size() ? &deferred_[i + 1].request : nullptr;
	}
	post_list(deferred_.front().request);
	deferred_.clear();
}

void SendQueue::post_list(ibv_send_wr& first) {
	++shared_.counters.send_posts;
	ibv_send_wr* bad = nullptr;
	if (const int error = ibv_post_send(qp_.get(), &first, &bad); error != 0)
		owner_.fail(Trouble::lost, lib::failure("ibv_post_send", error));
}

void SendQueue::keep(Unit* unit) {
	unit->number = posted_;
	unit->next = nullptr;
	(first_ == nullptr ? first_ : last_->next) = unit;
	last_ = unit;
	++units_;
}

void SendQueue::handle_done(std::uint32_t number) {
	completed_ = number;
	while (first_ != nullptr && is_done(first_->number)) give_back_first();
}

EndedQueuePair SendQueue::end() {
	units_ = 0;
	return {.units = UnitList(std::exchange(first_, nullptr), GiveBack{&shared_.units}),
		.buffers = {},
		.qp = std::move(qp_)};
}

void SendQueue::give_back_first() {
	Unit* const unit = first_;
	first_ = unit->next;
	--units_;
	shared_.units.give_back(unit);
}

}  // namespace verbena::channel

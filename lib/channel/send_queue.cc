#include "lib/channel/send_queue.h"

namespace verbena::channel {

int SendQueue::post(ibv_send_wr& request, bool signal) {
	for (ibv_send_wr* each = &request; each != nullptr; each = each->next) {
		const std::uint32_t number = ++posted_;
		if (signal || number - signalled_ >= depth_ / 2) {
			each->send_flags |= IBV_SEND_SIGNALED;
			signalled_ = number;
		}
		each->wr_id = std::uint64_t{number} << 1 | send_mark;
	}
	ibv_send_wr* bad = nullptr;
	return ibv_post_send(qp_.get(), &request, &bad);
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

void SendQueue::destroy() {
	qp_.reset();  // nothing reads the units any more
	while (first_ != nullptr) give_back_first();
}

void SendQueue::give_back_first() {
	Unit* const unit = first_;
	first_ = unit->next;
	--units_;
	pool_.give_back(unit);
}

}  // namespace verbena::channel

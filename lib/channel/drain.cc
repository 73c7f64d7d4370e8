// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/drain.h"

#include <fcntl.h>

#include <utility>

#include "lib/async/socket.h"

namespace verbena::channel {
namespace {

// A device may take a millisecond to destroy a queue pair.
constexpr int destroyed_at_once = 16;

int nonblocking(int fd) {
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	return fd;
}

}  // namespace

QueuePairDrain::QueuePairDrain(async::Loop& loop, ibv_cq* cq)
	: loop_(loop), cq_(cq), events_(loop, nonblocking(cq->context->async_fd)), watcher_(loop, watch()) {}

QueuePairDrain::~QueuePairDrain() {
	loop_.cancel(*this);
	watcher_ = {};
	events_.release();
}

void QueuePairDrain::add(EndedQueuePair ended, std::uint32_t granted) {
	const std::uint32_t qpn = ended.qp->qp_num;
	draining_.emplace(qpn, Draining{.ended = std::move(ended), .granted = granted, .number = ++added_});
	if (reached_early_.erase(qpn) > 0) return handle_last_reached(qpn);
	if (waits_.empty()) loop_.schedule(*this, monotonic_now() + event_wait);
	waits_.push_back({.qpn = qpn, .number = added_, .deadline = monotonic_now() + event_wait});
}

async::Task<void> QueuePairDrain::watch() {
	while (true) {
		events_.readable = false;
		read_events();
		co_await async::Wait(events_, async::Wait::For::reading, never);
	}
}

void QueuePairDrain::read_events() {
	ibv_async_event event;
	while (ibv_get_async_event(cq_->context, &event) == 0) {
		if (event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED) handle_last_reached(event.element.qp->qp_num);
		ibv_ack_async_event(&event);
	}
}

void QueuePairDrain::handle_last_reached(std::uint32_t qpn) {
	const auto at = draining_.find(qpn);
	if (at == draining_.end()) reached_early_.insert(qpn);
	else if (!std::exchange(at->second.last_reached, true)) reached_.push_back({qpn, completions_});
}

// An event that is there counts, however long the loop was busy.
void QueuePairDrain::expire() {
	read_events();
	while (!waits_.empty() && waits_.front().deadline <= loop_.now()) {
		const auto at = draining_.find(waits_.front().qpn);
		if (at != draining_.end() && at->second.number == waits_.front().number) handle_last_reached(at->first);
		waits_.pop_front();
	}
	if (!waits_.empty()) loop_.schedule(*this, waits_.front().deadline);
}

std::uint32_t QueuePairDrain::polled(std::size_t completions) {
	completions_ += completions;
	const auto capacity = static_cast<std::uint64_t>(cq_->cqe);
	std::uint32_t granted = 0;
	for (int left = destroyed_at_once; left > 0 && !reached_.empty(); --left) {
		if (completions > 0 && completions_ - reached_.front().completions < capacity) break;
		const auto at = draining_.find(reached_.front().qpn);
		granted += at->second.granted;
		draining_.erase(at);
		reached_.pop_front();
	}
	if (draining_.empty()) {
		waits_.clear();
		loop_.cancel(*this);
	}
	return granted;
}

void QueuePairDrain::abandon() {
	loop_.cancel(*this);
	draining_.clear();
	reached_.clear();
	waits_.clear();
}

}  // namespace verbena::channel

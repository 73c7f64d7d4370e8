// SPDX-License-Identifier: Apache-2.0
#include "lib/async/uring_selector.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace verbena::async {
namespace {

// Sizes of the submission queue and of the completion queue. When the completion queue is full, the
// kernel keeps further answers in a list of its own (IORING_FEAT_NODROP).
constexpr unsigned requests_at_once = 256, answers_at_once = 4096;
// The user_data of cancellations, whose own answers are ignored.
constexpr std::uint64_t cancellation_data = ~std::uint64_t{0};
constexpr std::uint32_t nowhere = ~std::uint32_t{0};

constexpr unsigned all_events = POLLIN | POLLOUT | POLLRDHUP;
constexpr Nanoseconds probe_timeout = 1'000'000'000;

__kernel_timespec to_timespec(Nanoseconds time) {
	return {.tv_sec = static_cast<long long>(time / 1'000'000'000),
		.tv_nsec = static_cast<long long>(time % 1'000'000'000)};
}

std::string failure(const char* call, int error) { return std::string(call) + ": " + std::strerror(error); }

}  // namespace

std::expected<std::unique_ptr<UringSelector>, std::string> UringSelector::open() {
	io_uring ring{};
	io_uring_params parameters{};
	parameters.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
	parameters.cq_entries = answers_at_once;
	if (const int result = io_uring_queue_init_params(requests_at_once, &ring, &parameters); result < 0)
		return std::unexpected(failure("io_uring_setup", -result));
	std::unique_ptr<UringSelector> selector(new UringSelector(ring));
	constexpr unsigned needed = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
	if ((parameters.features & needed) != needed)
		return std::unexpected("the io_uring of this kernel is older than Linux 5.13");
	if (auto proven = selector->probe_multishot(); !proven) return std::unexpected(proven.error());
	return selector;
}

// No feature flag says whether the kernel has multishot polls. So one is made of a descriptor that
// is ready; it must still be armed after its first answer.
std::expected<void, std::string> UringSelector::probe_multishot() {
	const int ready = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
	if (ready < 0) return std::unexpected(failure("eventfd", errno));
	io_uring_sqe* request = next_request();
	io_uring_prep_poll_multishot(request, ready, POLLIN);
	request->user_data = 0;
	__kernel_timespec patience = to_timespec(probe_timeout);
	io_uring_cqe* answer = nullptr;
	const int result = io_uring_submit_and_wait_timeout(&ring_, &answer, 1, &patience, nullptr);
	const bool goes_on =
		result >= 0 && answer != nullptr && answer->res > 0 && (answer->flags & IORING_CQE_F_MORE) != 0;
	if (answer != nullptr) io_uring_cqe_seen(&ring_, answer);
	if (goes_on) {
		request = next_request();
		io_uring_prep_cancel64(request, 0, 0);
		request->user_data = cancellation_data;
		io_uring_submit_and_wait_timeout(&ring_, &answer, 2, &patience, nullptr);
		io_uring_cq_advance(&ring_, io_uring_cq_ready(&ring_));
	}
	close(ready);
	if (result < 0) return std::unexpected(failure("io_uring_enter", -result));
	if (!goes_on)
		return std::unexpected("the io_uring of this kernel is older than Linux 5.13: it has no multishot poll");
	return {};
}

UringSelector::~UringSelector() {
	// The kernel cleans up a closed ring a little later, and would keep a listener's port open as
	// long. So every pending poll is cancelled first.
	for (std::size_t i = 0; i < watches_.size(); ++i)
		if (watches_[i].armed && !watches_[i].forgotten) forget(watches_[i].fd);
	io_uring_queue_exit(&ring_);
}

io_uring_sqe* UringSelector::next_request() {
	io_uring_sqe* request = io_uring_get_sqe(&ring_);
	while (request == nullptr) {
		gather();  // the kernel refuses requests while too many answers are unread
		const int result = io_uring_submit(&ring_);
		check(result >= 0 || result == -EBUSY || result == -EAGAIN || result == -EINTR, "io_uring takes requests");
		request = io_uring_get_sqe(&ring_);
	}
	return request;
}

void UringSelector::watch(int fd, bool level, void* who) {
	std::uint32_t index = 0;
	if (free_.empty()) {
		index = static_cast<std::uint32_t>(watches_.size());
		watches_.emplace_back();
	} else {
		index = free_.back();
		free_.pop_back();
	}
	watches_[index] = {.fd = fd, .who = who, .level = level};
	if (const auto place = static_cast<std::size_t>(fd); watch_of_.size() <= place)
		watch_of_.resize(place + 1, nowhere);
	watch_of_[static_cast<std::size_t>(fd)] = index;
	arm(index);
}

void UringSelector::arm(std::uint32_t index) {
	Watch& watch = watches_[index];
	io_uring_sqe* const request = next_request();
	if (watch.level) io_uring_prep_poll_add(request, watch.fd, POLLIN);
	else io_uring_prep_poll_multishot(request, watch.fd, all_events);
	request->user_data = index;
	watch.armed = true;
}

void UringSelector::forget(int fd) {
	const std::uint32_t index = std::exchange(watch_of_[static_cast<std::size_t>(fd)], nowhere);
	check(index != nowhere, "a descriptor is watched before it is forgotten");
	Watch& watch = watches_[index];
	watch.forgotten = true;
	const auto untold = news_.begin() + static_cast<std::ptrdiff_t>(told_);
	news_.erase(
		std::remove_if(untold, news_.end(), [index](const News& each) { return each.watch == index; }), news_.end());
	if (watch.armed) {
		io_uring_sqe* const request = next_request();
		// Cancels instead of removing the poll, because a removal fails while the kernel is about
		// to answer.
		io_uring_prep_cancel64(request, index, 0);
		request->user_data = cancellation_data;
		io_uring_submit(&ring_);
	} else {
		std::erase(to_arm_, index);
		free_.push_back(index);
	}
}

void UringSelector::take(const io_uring_cqe& answer) {
	if (answer.user_data == cancellation_data) return;
	const auto index = static_cast<std::uint32_t>(answer.user_data);
	Watch& watch = watches_[index];
	const bool ended = (answer.flags & IORING_CQE_F_MORE) == 0;
	if (ended) watch.armed = false;
	if (watch.forgotten) {
		if (ended) free_.push_back(index);
		return;
	}
	if (answer.res > 0) news_.push_back({.watch = index, .events = static_cast<std::uint32_t>(answer.res)});
	// ECANCELED without a cancellation of ours: the thread that made the request has ended, for
	// example one that only prepared the loop. The request is made anew.
	else check(answer.res == -ECANCELED, "io_uring polls every descriptor");
	// A multishot request ends too, if the completion queue was full.
	if (ended) to_arm_.push_back(index);
}

void UringSelector::gather() {
	io_uring_cqe* answers[64];
	while (const unsigned count = io_uring_peek_batch_cqe(&ring_, answers, std::size(answers))) {
		for (unsigned i = 0; i < count; ++i) take(*answers[i]);
		io_uring_cq_advance(&ring_, count);
	}
}

std::size_t UringSelector::wait(std::span<Readiness> into, Nanoseconds patience) {
	if (told_ == news_.size()) {
		told_ = 0;
		news_.clear();
		arming_.swap(to_arm_);
		for (const std::uint32_t index : arming_) arm(index);
		arming_.clear();
		gather();
		if (!news_.empty() || patience == 0) {
			if (io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
		} else {
			__kernel_timespec time = to_timespec(patience);
			io_uring_cqe* first = nullptr;
			io_uring_submit_and_wait_timeout(&ring_, &first, 1, patience == never ? nullptr : &time, nullptr);
		}
		gather();
	}
	const std::size_t count = std::min(into.size(), news_.size() - told_);
	for (std::size_t i = 0; i < count; ++i) {
		const News& each = news_[told_++];
		into[i] = {.who = watches_[each.watch].who,
			.readable = (each.events & (POLLIN | POLLRDHUP | POLLHUP | POLLERR)) != 0,
			.writable = (each.events & (POLLOUT | POLLHUP | POLLERR)) != 0};
	}
	return count;
}

}  // namespace verbena::async

// SPDX-License-Identifier: Apache-2.0
#include "lib/async/epoll_selector.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "base/check.h"

namespace verbena::async {
namespace {

constexpr std::size_t events_at_once = 256;

// epoll_pwait2 came with Linux 5.11. Before, and where a filter of system calls refuses it, every
// further call would fail at once, and the loop would spin.
std::atomic<bool> pwait2_refused{false};

}  // namespace

EpollSelector::EpollSelector() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
	if (epoll_ < 0) throw std::system_error(errno, std::generic_category(), "a loop needs a descriptor");
}

EpollSelector::~EpollSelector() { close(epoll_); }

void EpollSelector::watch(int fd, std::uint32_t events, void* who) {
	epoll_event event{.events = events, .data = {.ptr = who}};
	check(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0, "epoll watches every descriptor");
}

void EpollSelector::watch_changes(int fd, void* who) { watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, who); }

void EpollSelector::watch_readable(int fd, void* who) { watch(fd, EPOLLIN, who); }

void EpollSelector::forget(int fd) { epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr); }

std::size_t EpollSelector::wait(std::span<Readiness> into, Nanoseconds patience) {
	std::array<epoll_event, events_at_once> events;
	const timespec time{.tv_sec = static_cast<time_t>(patience / 1'000'000'000),
		.tv_nsec = static_cast<long>(patience % 1'000'000'000)};
	const auto most = static_cast<int>(std::min(into.size(), events.size()));
	const timespec* const until = patience == never ? nullptr : &time;
	int count = -1;
	if (!pwait2_refused.load(std::memory_order_relaxed)) {
		count = epoll_pwait2(epoll_, events.data(), most, until, nullptr);
		if (count < 0 && (errno == ENOSYS || errno == EPERM || errno == EACCES))
			pwait2_refused.store(true, std::memory_order_relaxed);
	}
	if (count < 0 && pwait2_refused.load(std::memory_order_relaxed)) {
		// An epoll descriptor can be polled itself, and ppoll takes nanoseconds on every kernel.
		pollfd members{epoll_, POLLIN, 0};
		if (ppoll(&members, 1, until, nullptr) > 0) count = epoll_wait(epoll_, events.data(), most, 0);
	}
	if (count <= 0) return 0;
	const auto found = static_cast<std::size_t>(count);
	for (std::size_t i = 0; i < found; ++i) {
		const std::uint32_t what = events[i].events;
		into[i] = {.who = events[i].data.ptr,
			.readable = (what & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0,
			.writable = (what & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0};
	}
	return found;
}

}  // namespace verbena::async

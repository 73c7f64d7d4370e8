#include "lib/async/epoll_selector.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace verbena::async {
namespace {

constexpr std::size_t events_at_once = 256;

}  // namespace

EpollSelector::EpollSelector() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
	check(epoll_ >= 0, "a loop needs a descriptor");
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
	const int count = epoll_pwait2(epoll_, events.data(), most, patience == never ? nullptr : &time, nullptr);
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

#include "nic/engine/epoll_set.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace verbena::engine {

std::expected<EpollSet, int> EpollSet::create() {
	Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
	if (!epoll) return std::unexpected(errno);
	return EpollSet(std::move(epoll));
}

bool EpollSet::add(int fd) {
	epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
	return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

bool EpollSet::add_wake_only(int fd) {
	epoll_event event{.events = EPOLLIN, .data = {.fd = no_fd}};
	return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void EpollSet::remove(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

std::span<const epoll_event> EpollSet::wait(std::span<epoll_event> room, Nanoseconds timeout) {
	const timespec limit = to_timespec(timeout);
	// epoll_pwait2 takes nanoseconds; epoll_wait would round a pause of 100 us up to a millisecond.
	const long count = syscall(SYS_epoll_pwait2, epoll_.get(), room.data(), static_cast<int>(room.size()),
		timeout == never ? nullptr : &limit, nullptr, 0);
	return room.first(count > 0 ? static_cast<std::size_t>(count) : 0);
}

}  // namespace verbena::engine

// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/epoll_set.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace verbena::engine {

namespace {

// epoll_pwait2 came with Linux 5.11. Before, and where a filter of system calls refuses it
// (ENOSYS, EPERM), every further call would fail at once.
std::atomic<bool> pwait2_refused{false};

// Valgrind 3.19 prints a warning for each system call that it does not know, also for one that the
// program only tries. It preloads a library of its own into the programs that it runs.
bool is_under_valgrind() {
	const char* const preloaded = std::getenv("LD_PRELOAD");
	return preloaded != nullptr && std::strstr(preloaded, "/vgpreload_") != nullptr;
}

bool refused(int error) { return error == ENOSYS || error == EPERM || error == EACCES; }

bool add_to(int epoll, int fd, int reported, std::uint32_t events) {
	epoll_event event{.events = events, .data = {.fd = reported}};
	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

std::expected<EpollSet, int> EpollSet::create() {
	Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
	if (!epoll) return std::unexpected(errno);
	if (is_under_valgrind()) pwait2_refused.store(true, std::memory_order_relaxed);
	return EpollSet(std::move(epoll));
}

bool EpollSet::add(int fd) { return add_to(epoll_.get(), fd, fd, EPOLLIN); }

bool EpollSet::add_wake_only(int fd) { return add_to(epoll_.get(), fd, no_fd, EPOLLIN | EPOLLONESHOT); }

bool EpollSet::wake_again(int fd) {
	epoll_event event{.events = EPOLLIN | EPOLLONESHOT, .data = {.fd = no_fd}};
	return epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0;
}

bool EpollSet::add_exclusive(int fd) {
	if (add_to(epoll_.get(), fd, fd, EPOLLIN | EPOLLEXCLUSIVE)) return true;
	// Before Linux 4.5. The doorbell then wakes every set, which costs a needless wake-up.
	return errno == EINVAL && add(fd);
}

void EpollSet::remove(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

std::span<const epoll_event> EpollSet::wait(std::span<epoll_event> room, Nanoseconds timeout) {
	const timespec limit = to_timespec(timeout);
	const timespec* const until = timeout == never ? nullptr : &limit;
	long count = 0;
	// epoll_pwait2 takes nanoseconds; epoll_wait would round a pause of 100 us up to a millisecond.
	if (!pwait2_refused.load(std::memory_order_relaxed)) {
		count = syscall(SYS_epoll_pwait2, epoll_.get(), room.data(), static_cast<int>(room.size()), until, nullptr, 0);
		if (count >= 0 || !refused(errno)) return room.first(static_cast<std::size_t>(std::max(count, 0L)));
		pwait2_refused.store(true, std::memory_order_relaxed);
	}
	// An epoll descriptor can be polled itself, and ppoll takes nanoseconds on every kernel.
	pollfd members{epoll_.get(), POLLIN, 0};
	if (ppoll(&members, 1, until, nullptr) > 0)
		count = epoll_wait(epoll_.get(), room.data(), static_cast<int>(room.size()), 0);
	return room.first(static_cast<std::size_t>(std::max(count, 0L)));
}

// The thread must sleep in epoll itself, or add_exclusive() would not see it. So the replacement of
// epoll_pwait2 is epoll_pwait here, and the progress thread is the one that is punctual
// (Engine::drive_until_readable()).
int EpollSet::wait_interruptibly(int epoll, std::span<epoll_event> room, Nanoseconds timeout, const sigset_t* mask) {
	if (!pwait2_refused.load(std::memory_order_relaxed)) {
		const timespec limit = to_timespec(timeout);
		const int count =
			epoll_pwait2(epoll, room.data(), static_cast<int>(room.size()), timeout == never ? nullptr : &limit, mask);
		if (count >= 0 || !refused(errno)) return count;
		pwait2_refused.store(true, std::memory_order_relaxed);
	}
	constexpr Nanoseconds millisecond = 1'000'000;
	const Nanoseconds rounded_up = timeout / millisecond + (timeout % millisecond != 0);
	return epoll_pwait(epoll, room.data(), static_cast<int>(room.size()),
		timeout == never ? -1 : static_cast<int>(std::min<Nanoseconds>(rounded_up, INT_MAX)), mask);
}

}  // namespace verbena::engine

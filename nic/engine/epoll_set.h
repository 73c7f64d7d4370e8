// SPDX-License-Identifier: Apache-2.0
// A set of descriptors on which threads sleep: the progress thread in one, and each thread that
// blocks in a verb in the set of its queue (waiting.h).
//
// Threads: add(), add_wake_only(), wake_again() and remove() from any thread; wait() from the
//   progress thread, wait_interruptibly() from threads that block in a verb.
// Owns: the epoll descriptor, not its members. A member leaves the set when it is closed.
// Errors: create() returns an errno value; functions that return false have set errno.
#pragma once

#include <sys/epoll.h>

#include <csignal>
#include <expected>
#include <span>

#include "base/descriptor.h"
#include "base/time.h"

namespace verbena::engine {

class EpollSet {
public:
	// The `fd` of an event whose descriptor was added with add_wake_only().
	static constexpr int no_fd = -1;

	// Error: an errno value.
	static std::expected<EpollSet, int> create();

	// wait() reports `fd` while it is readable. False: errno has the reason.
	bool add(int fd);
	// wait() returns once when `fd` is readable, and reports no_fd. It does not return for `fd`
	// again before wake_again(fd).
	bool add_wake_only(int fd);
	bool wake_again(int fd);
	// As add(), for a descriptor that is in several sets: when it becomes readable, the kernel
	// wakes one of them. It takes the set that was added first among those in which a thread sleeps
	// in epoll, and the last one if no thread does in any.
	bool add_exclusive(int fd);
	void remove(int fd);

	// Sleeps until a member is readable, at most `timeout` (`never`: without a limit). Returns the
	// events, which lie in `room`; none after a signal.
	std::span<const epoll_event> wait(std::span<epoll_event> room, Nanoseconds timeout);

	// As wait(), with the signal mask `mask`, if not null, while the thread sleeps. A cancellation
	// point if the thread can be cancelled. Without epoll_pwait2 the timeout is rounded up to
	// milliseconds. Returns the number of events, or -1 with errno. Static, and without the object,
	// because the thread may not come back.
	static int wait_interruptibly(int epoll, std::span<epoll_event> room, Nanoseconds timeout, const sigset_t* mask);
	int fd() const { return epoll_.get(); }

	// In the child of a fork, which shares the set with its parent.
	void abandon_after_fork() { epoll_ = Descriptor(); }

private:
	explicit EpollSet(Descriptor epoll) : epoll_(std::move(epoll)) {}

	Descriptor epoll_;
};

}  // namespace verbena::engine

// The set of descriptors on which the progress thread sleeps.
//
// Threads: add(), add_wake_only() and remove() from any thread; wait() from the progress thread.
// Owns: the epoll descriptor, not its members. A member leaves the set when it is closed.
// Errors: create() returns an errno value; add() returns false and sets errno.
#pragma once

#include <sys/epoll.h>

#include <expected>
#include <span>

#include "base/time.h"
#include "nic/engine/descriptor.h"

namespace verbena::engine {

class EpollSet {
public:
	// The `fd` of an event whose descriptor was added with add_wake_only().
	static constexpr int no_fd = -1;

	// Error: an errno value.
	static std::expected<EpollSet, int> create();

	// wait() reports `fd` while it is readable. False: errno has the reason.
	bool add(int fd);
	// wait() returns while `fd` is readable, and reports no_fd: the pass that follows reads it.
	bool add_wake_only(int fd);
	void remove(int fd);

	// Sleeps until a member is readable, at most `timeout` (`never`: without a limit). Returns the
	// events, which lie in `room`; none after a signal.
	std::span<const epoll_event> wait(std::span<epoll_event> room, Nanoseconds timeout);

	// In the child of a fork, which shares the set with its parent.
	void abandon_after_fork() { epoll_ = Descriptor(); }

private:
	explicit EpollSet(Descriptor epoll) : epoll_(std::move(epoll)) {}

	Descriptor epoll_;
};

}  // namespace verbena::engine

// A queue of events whose descriptor a program can poll, as that of ibv_create_comp_channel(3).
//
// Threads: any; one mutex inside.
// Owns: an eventfd.
// Invariants: the eventfd counts the queued events, so it is readable only while there is one. (For
//   a moment it may count an event whose object is being destroyed.)
#pragma once

#include <cstdint>
#include <deque>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace verbena::verbs {

template <class Event> class EventQueue {
public:
	EventQueue() : fd_(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}
	~EventQueue() {
		if (fd_ >= 0) close(fd_);
	}
	EventQueue(const EventQueue&) = delete;
	EventQueue& operator=(const EventQueue&) = delete;

	int fd() const { return fd_; }  // -1 if eventfd() failed; its errno is still set

	void push(const Event& event) {
		const std::lock_guard lock(mutex_);
		events_.push_back(event);
		const std::uint64_t one = 1;
		[[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
	}

	// Takes the oldest event. If there is none, it calls wait(fd), which returns true once the
	// descriptor is readable, or false and sets errno; a descriptor that the program made
	// non-blocking fails with EAGAIN instead. Returns false with errno set.
	template <class Wait> bool pop(Event& event, Wait&& wait) {
		for (;;) {
			pollfd readable{fd_, POLLIN, 0};
			if (::poll(&readable, 1, 0) == 0 && !(fcntl(fd_, F_GETFL) & O_NONBLOCK) && !wait(fd_)) return false;
			std::uint64_t one;
			if (read(fd_, &one, sizeof one) != sizeof one) return false;
			const std::lock_guard lock(mutex_);
			if (events_.empty()) continue;  // remove_if() took the event in between
			event = events_.front();
			events_.pop_front();
			return true;
		}
	}

	// Removes the events of an object that is being destroyed.
	template <class Predicate> void remove_if(Predicate&& predicate) {
		const std::lock_guard lock(mutex_);
		for (auto at = events_.begin(); at != events_.end();) {
			if (!predicate(*at)) {
				++at;
				continue;
			}
			at = events_.erase(at);
			take_count();
		}
	}

private:
	// Subtracts one event. It must not block: a thread in pop() may take the count first.
	void take_count() const {
		pollfd readable{fd_, POLLIN, 0};
		std::uint64_t one;
		// NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
		if (::poll(&readable, 1, 0) == 1 && read(fd_, &one, sizeof one) < 0) return;
	}

	int fd_;
	std::mutex mutex_;
	std::deque<Event> events_;
};

}  // namespace verbena::verbs
